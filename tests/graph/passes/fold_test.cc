#include <doctest/doctest.h>

#include "graph/graph_run.h"
#include "graph/pass.h"
#include "graph/passes/passes.h"

namespace lathe::test {
namespace {

TEST_CASE("shape subgraphs with known results become constants") {
  check_pass(
      passes::fold_shapes,
      "input %x : f32[N,4,6]\nconstant %i : s64[1] = [1]\nconstant %k : s64[1] = [-1]\n%s = Shape (%x)\n%g = Gather (%s, %i)\n"
      "%t = Concat (%k, %g) {axis=0}\n%y = Reshape (%x, %t)\noutput %y\n",
      "%y = Reshape (%x, %t.1)\noutput %y\n");
}

TEST_CASE("contents with symbols are not folded, and do not run") {
  const std::string body =
      "input %x : f32[N,4,6]\nconstant %i : s64[1] = [0]\nconstant %k : s64[1] = [24]\n%s = Shape (%x)\n%g = Gather (%s, %i)\n"
      "%t = Concat (%g, %k) {axis=0}\n%y = Reshape (%x, %t)\noutput %y\n";
  check_untouched(passes::fold_shapes, body);
  CHECK(run_graph(parsed(body))[0].size() == 2 * 24 * 4);
  // An integer tensor that is an output is data, not shape.
  check_untouched(passes::fold_shapes, "input %x : f32[3,4]\n%s = Shape (%x)\noutput %s\n");
}

TEST_CASE("nodes with constant operands are run and replaced") {
  check_pass(passes::fold_constants,
             "input %x : f32[N,4]\n" + random_f32("a", {4}, 1) + random_f32("b", {4}, 2) +
                 "%c = Mul (%a, %b)\n%d = Exp (%c)\n%y = Add (%x, %d)\noutput %y\n",
             "%y = Add (%x, %d.1)\noutput %y\n");
  Graph g = parsed(
      "input %x : f32[N,2]\nconstant %a : f32[2] = [1.5, -2]\nconstant %b : f32[2] = [2, 0.25]\n%c = Mul (%a, %b)\n%y = Add (%x, "
      "%c)\noutput %y\n");
  Rewriter rewriter(g);
  REQUIRE(passes::fold_constants(rewriter));
  const auto folded = g.value(g.producer(g.outputs()[0])->inputs[1]).constant.as<float>();
  CHECK(folded[0] == 3.0f);
  CHECK(folded[1] == -0.5f);
}

TEST_CASE("nodes that read an input, and outputs, are not folded") {
  check_untouched(passes::fold_constants, "input %x : f32[4]\n" + random_f32("a", {4}, 1) + "%y = Add (%x, %a)\noutput %y\n");
  check_untouched(passes::fold_constants, "input %x : f32[4]\n" + random_f32("a", {4}, 1) + "%y = Exp (%a)\noutput %y\n");
}

TEST_CASE("operations that change nothing go") {
  check_pass(passes::drop_identities,
             "input %x : f32[N,4]\nconstant %z : f32[4] = [0, 0, 0, 0]\nconstant %o : f32[] = [1]\nconstant %t : s64[2] = [-1, "
             "4]\n%a = Exp (%x)\n%b = Cast (%a)\n"
             "%c = Clamp (%b)\n%d = Pad (%c) {before=[0,0], after=[0,0]}\n%e = Add (%d, %z)\n%f = Mul (%e, %o)\n%g = Reshape "
             "(%f, %t)\n%h = Concat (%g) {axis=0}\n%y = Exp (%h)\noutput %y\n",
             "%a = Exp (%x)\n%y = Exp (%a)\noutput %y\n");
}

TEST_CASE("what looks like an identity but is none stays") {
  check_untouched(passes::drop_identities, "input %x : f32[4]\n%y = Clamp (%x)\noutput %y\n");  // an output has its own memory
  check_untouched(
      passes::drop_identities,
      "input %x : f32[4]\nconstant %z : f32[4] = [0, 0, 0, 0]\n%a = Exp (%x)\n%b = Sub (%z, %a)\n%y = Exp (%b)\noutput %y\n");
  check_untouched(
      passes::drop_identities,
      "input %x : f32[4]\n%a = Slice (%x) {axes=[0], begins=[-1], ends=[-100], steps=[-1]}\n%y = Exp (%a)\noutput %y\n");
  check_untouched(passes::drop_identities,
                  "input %x : f32[1]\nconstant %z : f32[3] = [0, 0, 0]\n%a = Add (%x, %z)\n%y = Exp (%a)\noutput %y\n");
}

TEST_CASE("unread nodes go") {
  check_pass(passes::dead_code, "input %x : f32[N,4]\n%a = Exp (%x)\n%b = Exp (%a)\n%y = Tanh (%x)\noutput %y\n",
             "%y = Tanh (%x)\noutput %y\n");
}

TEST_CASE("the driver stops after a pass, reports changes and names unknown passes") {
  const std::string body =
      "input %x : f32[N,4]\n%a = Clamp (%x) {lo=0}\n%b = Clamp (%a) {hi=1}\n%c = Exp (%x)\n%y = Exp (%b)\noutput %y\n";
  Graph g = parsed(body);
  std::vector<std::string> changed;
  PassOptions options;
  options.on_changed = [&](const Pass& pass, const Graph&, int edits) {
    CHECK(edits > 0);
    changed.push_back(pass.name);
  };
  options.stop_after = "fuse-clamps";
  REQUIRE(run_passes(g, lowering_passes(), options));
  CHECK(nodes(g) == "%b = Clamp (%x) {lo=0, hi=1}\n%y = Exp (%b)\noutput %y\n");
  CHECK(changed.back() == "fuse-clamps");
  options.stop_after = "fuse-clumps";
  const auto failed = run_passes(g, lowering_passes(), options);
  REQUIRE(!failed);
  CHECK(failed.error().message.find("no pass 'fuse-clumps'") == 0);
  CHECK(failed.error().message.find("fuse-clamps") != std::string::npos);
}

}  // namespace
}  // namespace lathe::test
