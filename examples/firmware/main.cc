// Runs an embedded model from flash on given inputs, prints its outputs in hex and leaves with status 0 if every byte is what the
// host computed.
//
// model.h, model.cc: `lathe embed`. model_cases.h: inputs and expected outputs (`lathe embed --with-cases`). RAM holds the arena
// and the stack, nothing else.
#include <board.h>
#include <stdint.h>

#include "model.h"
#include "model_cases.h"

namespace {

alignas(16) uint8_t arena[model::kArenaBytes];

void print_hex(const uint8_t* bytes, uint32_t n) {
  char text[3] = {};
  for (uint32_t i = 0; i < n; ++i) {
    text[0] = "0123456789abcdef"[bytes[i] >> 4];
    text[1] = "0123456789abcdef"[bytes[i] & 15];
    board::print(text);
  }
}

// One case: copies the inputs in, runs, compares. Returns the number of outputs that differ.
int run_case(uint32_t index) {
  model::reset(arena);
  for (uint32_t i = 0; i < model::kInputCount; ++i) {
    const model_cases::Array& x = model_cases::kInputs[index * model::kInputCount + i];
    if (x.bytes != model::kInputs[i].bytes) return 1;
    __builtin_memcpy(model::input(arena, i), x.words, x.bytes);
  }
  model::run(arena);
  int wrong = 0;
  for (uint32_t i = 0; i < model::kOutputCount; ++i) {
    const model_cases::Array& want = model_cases::kOutputs[index * model::kOutputCount + i];
    const auto* got = static_cast<const uint8_t*>(model::output(arena, i));
    print_hex(got, want.bytes < 64 ? want.bytes : 64);
    const bool equal = want.bytes == model::kOutputs[i].bytes && __builtin_memcmp(got, want.words, want.bytes) == 0;
    board::print(equal ? " equal\n" : " DIFFERENT\n");
    wrong += equal ? 0 : 1;
  }
  return wrong;
}

}  // namespace

int firmware_main() {
  int wrong = 0;
  for (uint32_t i = 0; i < model_cases::kCount; ++i) wrong += run_case(i);
  board::print(wrong == 0 && model_cases::kCount != 0 ? "every output equals the host's\n" : "outputs differ from the host's\n");
  return wrong == 0 && model_cases::kCount != 0 ? 0 : 1;
}
