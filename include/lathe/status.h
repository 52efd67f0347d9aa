// Status codes of the freestanding core.
//
// The core reports a small, exact value instead of text: what went wrong, where (a step, tensor or record
// index) and the two numbers that disagree. Hosts turn it into a sentence (base/result.h); firmware keeps it.
// Thread-safe: plain values.
#pragma once
#include <stdint.h>

namespace lathe {

enum class Code : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,  // the caller's value cannot be used
  kUnsupported = 2,      // valid, but this build or target cannot do it
  kCorrupt = 3,          // bytes from outside contradict themselves or their container
  kVersion = 4,          // made by a newer writer
  kOutOfMemory = 5,      // the memory handed over is too small, or none was given
  kIo = 6,               // host only: the operating system refused
  kCancelled = 7,        // host only: stopped on request
};

// `where`: index of the step, tensor or record that `code` is about (0 if none). `needed`, `got`: the two
// numbers that disagree, in the unit that the function's contract states.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  uint32_t where = 0;
  uint32_t needed = 0;
  uint32_t got = 0;
  constexpr bool ok() const { return code == Code::kOk; }
};

}  // namespace lathe
