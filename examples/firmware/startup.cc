// Start-up of a Cortex-M with an FPU: vector table, FPU on, data and bss, main. Output and exit status go through semihosting,
// which QEMU and debuggers answer; a product replaces it with its own.
#include <board.h>

extern "C" {

extern uint32_t stack_top[], data_load[], data_start[], data_end[], bss_start[], bss_end[];

[[noreturn]] void fault() {
  board::print("processor fault\n");
  board::exit(99);
}

[[noreturn]] void reset() {
  auto* const cpacr = reinterpret_cast<volatile uint32_t*>(0xE000ED88u);
  *cpacr = *cpacr | 0xFu << 20;  // coprocessors 10 and 11: the FPU
  asm volatile("dsb\n isb" ::: "memory");
  const uint32_t* from = data_load;
  for (uint32_t* to = data_start; to < data_end;) *to++ = *from++;
  for (uint32_t* to = bss_start; to < bss_end;) *to++ = 0;
  board::exit(firmware_main());
}

}  // extern "C"

namespace {

using Handler = void (*)();

struct VectorTable {
  uint32_t* stack;
  Handler handlers[15];
};

[[gnu::section(".vectors"), gnu::used]] const VectorTable vectors = {
    stack_top, {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault}};

}  // namespace
