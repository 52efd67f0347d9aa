// Model files: the graph, the programs, the checks of `lathe check`.
#include "graph/file/model_file.h"
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/fuzz.h"
#include "tests/graph/file/model_samples.h"

namespace lathe::fuzz {

void run_lathe(Bytes bytes) {
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
  const FileBytes file = test::aligned_copy({from, from + bytes.size()});
  (void)check_model_file(file);
  if (auto model = read_model(file)) {
    CHECKED(verify(model->graph).has_value());
    exercise(model->graph);
  }
  if (auto program = open_program(file)) exercise(*program);
}

std::vector<std::string> seeds_lathe() {
  std::vector<std::string> out;
  for (const test::Sample& sample : test::samples()) {
    auto graph = parse_graph("graph {\n" + sample.body + "\n}");
    CHECKED(graph.has_value());
    for (const bool plan : {false, true}) {
      WriteOptions options;
      if (plan) options.targets = {lathe::Target::kHost};
      if (auto bytes = model_bytes(*graph, options)) out.emplace_back(bytes->begin(), bytes->end());
    }
  }
  return out;
}

}  // namespace lathe::fuzz
