// TFLite files: import, and everything behind it. Seeds are the files of one operator each that LiteRT's results are kept for.
#include "data/npy.h"
#include "graph/import/tflite/import_tflite.h"
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {

void run_tflite(Bytes bytes) {
  // A block of its own size, so that a sanitizer sees a read past its end.
  const auto owner = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  if (auto graph = import_tflite(owner, *owner, {}, nullptr)) {
    CHECKED(verify(*graph).has_value());
    exercise(*graph);
  }
}

std::vector<std::string> seeds_tflite() {
  std::vector<std::string> seeds;
  const auto arrays = read_npz(std::string(LATHE_SOURCE_ROOT) + "/tests/oracle/expected/tflite_ops.npz");
  CHECKED(arrays.has_value());
  for (const NamedTensor& a : *arrays) {
    if (!a.name.ends_with(":model")) continue;
    seeds.emplace_back(reinterpret_cast<const char*>(a.tensor.bytes.data()), a.tensor.bytes.size());
  }
  return seeds;
}

}  // namespace lathe::fuzz
