// What the example needs of a board: printing and leaving, here by Arm semihosting (an operation in r0, its operand in r1,
// breakpoint 0xab).
#pragma once
#include <stdint.h>

int firmware_main();

namespace board {

inline void call(uint32_t operation, const void* operand) {
  register uint32_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = operand;
  asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

inline void print(const char* text) { call(0x04, text); }  // SYS_WRITE0

[[noreturn]] inline void exit(int status) {
  const uint32_t block[2] = {0x20026, static_cast<uint32_t>(status)};  // ADP_Stopped_ApplicationExit
  call(0x20, block);                                                  // SYS_EXIT_EXTENDED
  for (;;) {
  }
}

}  // namespace board
