// The text form of graphs: what parses prints, and what was printed parses to the same text.
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/fuzz.h"
#include "tests/graph/file/model_samples.h"

namespace lathe::fuzz {

void run_text(Bytes bytes) {
  auto graph = parse_graph({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!graph) return;
  const std::string once = print(*graph, true);
  auto again = parse_graph(once);
  CHECKED(again.has_value());
  CHECKED(print(*again, true) == once);
  if (verify(*graph)) exercise(*graph);
}

std::vector<std::string> seeds_text() {
  std::vector<std::string> out;
  for (const test::Sample& sample : test::samples()) out.push_back("graph {\n" + sample.body + "\n}");
  return out;
}

}  // namespace lathe::fuzz
