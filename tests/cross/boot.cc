// Start-up of a test program on a bare Cortex-M under QEMU: vector table, FPU, data and bss, constructors, main. A
// program may use newlib and doctest; what main returns is QEMU's exit status, and a processor fault is status 99 with
// one line that names it. Only tests use this; it is no pattern for firmware, which needs neither heap nor stdio.
#include <stddef.h>
#include <stdint.h>

extern "C" {

extern uint32_t __stack_top[];
extern uint32_t __data_load[], __data_start[], __data_end[], __bss_start[], __bss_end[];
extern void (*__init_array_start[])();
extern void (*__init_array_end[])();

int program_main(int argc, char** argv) asm("main");  // C++ forbids naming main in an expression
[[noreturn]] void exit(int status);
void initialise_monitor_handles();  // newlib: opens stdin, stdout and stderr by semihosting

void* __dso_handle = nullptr;
void _init() {}
void _fini() {}

// Arm semihosting: operation in r0, operand or block of operands in r1.
static void semihost(uint32_t operation, const void* operand) {
  register uint32_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = operand;
  asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static char* put_hex(char* out, uint32_t v) {
  for (int shift = 28; shift >= 0; shift -= 4) *out++ = "0123456789abcdef"[(v >> shift) & 15];
  return out;
}

static char* put(char* out, const char* text) {
  while (*text) *out++ = *text++;
  return out;
}

// `frame` is what the processor pushed: r0-r3, r12, lr, pc, xpsr.
[[noreturn, gnu::used]] void report_fault(const uint32_t* frame, uint32_t exception) {
  const auto fault_status = reinterpret_cast<volatile uint32_t*>(0xE000ED28u);  // CFSR
  char text[80];
  char* out = put(text, "processor fault ");
  out = put_hex(out, exception);
  out = put_hex(put(out, " at "), frame[6]);
  out = put_hex(put(out, ", status "), *fault_status);
  *put(out, "\n") = 0;
  semihost(0x04, text);                    // SYS_WRITE0
  const uint32_t block[2] = {0x20026, 99};  // ADP_Stopped_ApplicationExit
  semihost(0x20, block);                   // SYS_EXIT_EXTENDED
  for (;;) {
  }
}

[[gnu::naked]] void fault() { asm volatile("mrs r0, msp\n mrs r1, ipsr\n b report_fault\n"); }

[[noreturn]] void reset() {
  const auto cpacr = reinterpret_cast<volatile uint32_t*>(0xE000ED88u);
  *cpacr = *cpacr | 0xFu << 20;  // full access to coprocessors 10 and 11: the FPU
  asm volatile("dsb\n isb" ::: "memory");
  const uint32_t* from = __data_load;
  for (uint32_t* to = __data_start; to < __data_end;) *to++ = *from++;
  for (uint32_t* to = __bss_start; to < __bss_end;) *to++ = 0;
  initialise_monitor_handles();
  for (auto f = __init_array_start; f < __init_array_end; ++f) (*f)();
  static char name[] = "test";
  static char* argv[] = {name, nullptr};
  exit(program_main(1, argv));
}

}  // extern "C"

namespace {

using Handler = void (*)();

struct VectorTable {
  uint32_t* stack;
  Handler handlers[15];
};

[[gnu::section(".vectors"), gnu::used]] const VectorTable vectors = {
    __stack_top,
    {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault}};

}  // namespace
