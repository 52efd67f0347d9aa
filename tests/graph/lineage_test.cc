// Content hashes and what they make of lineage.
#include <doctest/doctest.h>

#include "graph/lineage.h"

namespace lathe {
namespace {

Graph net(const std::string& constants, const std::string& tail = "%y = Add (%h, %c)") {
  auto g = parse_graph("graph {\ninput %x : f32[N,2]\n" + constants + "\n%h = Mul (%x, %w)\n" + tail + "\noutput %y\n}");
  REQUIRE_MESSAGE(g, g.error().message);
  return std::move(*g);
}

const char* const kW = "constant %w : f32[2] = [1, 2]\n";
const char* const kC = "constant %c : f32[2] = [0, 3]\n";

std::string many(const char* last) {
  std::string text = "constant %big : f32[20] = [";
  for (int i = 0; i < 19; ++i) text += "1, ";
  return std::string(kW) + kC + text + last + "]";
}

TEST_CASE("content is structure and constants, whatever the order of values and the metadata") {
  const Graph g = net(std::string(kW) + kC);
  Graph named = g;
  named.metadata["note"] = "text";
  CHECK(content_hash(named) == content_hash(g));
  CHECK(content_hash(net(std::string(kC) + kW)) == content_hash(g));
  CHECK(content_hash(net(std::string(kW) + "constant %c : f32[2] = [0, 4]")) != content_hash(g));
  CHECK(content_hash(net(std::string(kW) + kC, "%y = Sub (%h, %c)")) != content_hash(g));
  const std::string tail = "%y = Add (%h, %c)\n%z = Exp (%big)\noutput %z";
  CHECK(content_hash(net(many("1"), tail)) == content_hash(net(many("1"), tail)));
  CHECK(content_hash(net(many("1"), tail)) != content_hash(net(many("2"), tail)));
}

TEST_CASE("a root stays the first model's") {
  const Graph first = net(std::string(kW) + kC);
  Graph second = net(std::string(kW) + "constant %c : f32[2] = [0, 4]"), third = net(kW, "%y = Exp (%h)");
  CHECK(lineage_root(first) == to_hex(content_hash(first)));
  CHECK(lineage_root(second) != lineage_root(first));
  set_lineage(first, &second);
  set_lineage(second, &third);
  CHECK(lineage_root(third) == lineage_root(first));
}

}  // namespace
}  // namespace lathe
