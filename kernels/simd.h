// What the ISA files share that is no instruction set's own.
#pragma once

// Unrolls the next loop whole: register tiles are arrays that must dissolve into registers.
#if defined(__clang__)
#define LATHE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LATHE_UNROLL _Pragma("GCC unroll 32")
#endif
