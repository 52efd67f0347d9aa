// What kind of machine a test runs on.
#pragma once

namespace lathe::test {

// A board under an emulator, 16 MiB of memory and slow: cases that hold many megabytes, or try thousands of damaged
// inputs (which only the sanitizers can judge), are skipped there.
#if defined(__linux__)
inline constexpr bool kSmallMachine = false;
#else
inline constexpr bool kSmallMachine = true;
#endif

}  // namespace lathe::test
