#include <doctest/doctest.h>

#include "graph/graph_run.h"
#include "graph/passes/passes.h"
#include "graph/passes/permutation.h"

namespace lathe::test {
namespace {

const std::string kIn = "input %x : f32[N,3,6,5]\n";          // NCHW
const std::string kToNhwc = " {perm=[0,2,3,1]}\n", kToNchw = " {perm=[0,3,1,2]}\n";
const std::string kWeights = random_f32("w", {3, 3, 3, 3}, 1) + random_f32("u", {3, 3, 3, 3}, 2) + random_f32("g", {3}, 3) +
                             random_f32("v", {3}, 4, 0.5f, 2.0f);

TEST_CASE("permutations invert and compose") {
  const Ints p{4, {0, 2, 3, 1}}, q{4, {0, 3, 1, 2}};
  CHECK(passes::inverse(p) == q);
  CHECK(passes::is_identity(passes::compose(p, q)));
  CHECK(passes::compose(p, p) == Ints{4, {0, 3, 1, 2}});
  const std::vector<float> v = {1, 2, 3, 4, 5, 6};
  const Constant moved = passes::permuted(Constant::of(v), 4, {2, 3}, Ints{2, {1, 0}});
  CHECK(std::vector<float>(moved.as<float>().begin(), moved.as<float>().end()) == std::vector<float>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("inverse transposes cancel and others compose") {
  check_pass(passes::cancel_transposes,
             kIn + "%a = Transpose (%x)" + kToNhwc + "%b = Exp (%a)\n%c = Transpose (%b)" + kToNchw + "output %c\n",
             "%c = Exp \"b\" (%x)\noutput %c\n");
  check_pass(passes::cancel_transposes, kIn + "%a = Transpose (%x)" + kToNhwc + "%c = Transpose (%a)" + kToNhwc + "output %c\n",
             "%c = Transpose (%x) {perm=[0,3,1,2]}\noutput %c\n");
}

TEST_CASE("a chain that is made to be moved link by link ends when its work is used up, and computes the same") {
  std::string body = kIn;
  for (int i = 0; i < 40; ++i) {
    const std::string from = i == 0 ? "x" : "b" + std::to_string(i - 1), t = "t" + std::to_string(i);
    body += "%" + t + " = Transpose (%" + from + ") {perm=[0,2,1,3]}\n%b" + std::to_string(i) + " = Add (%" + t + ", %z)\n";
  }
  Graph graph = parsed("input %z : f32[1,1,1,1]\n" + body + "output %b39\n");
  const auto before = run_graph(graph);
  int edits[2];
  for (const bool bounded : {true, false}) {
    Graph changed = graph;
    Rewriter rewriter(changed);
    REQUIRE(passes::cancel_transposes_within(rewriter, bounded ? 100000 : UINT64_MAX).has_value());
    edits[bounded ? 0 : 1] = rewriter.edits();
    CHECK(verify(changed).has_value());
    CHECK(relative_difference(run_graph(changed), before) < 1e-6);
  }
  CHECK(edits[0] < edits[1]);
}

TEST_CASE("two convolutions with a batch norm and a clamp between keep the transposes at the borders") {
  check_pass(passes::cancel_transposes,
             kIn + kWeights + "%a = Transpose (%x)" + kToNhwc + "%b = Conv2d (%a, %w)\n%c = Transpose (%b)" + kToNchw +
                 "%d = BatchNorm (%c, %g, %g, %g, %v) {axis=1}\n%e = Clamp (%d) {lo=0}\n%f = Transpose (%e)" + kToNhwc +
                 "%h = Conv2d (%f, %u)\n%y = Transpose (%h)" + kToNchw + "output %y\n",
             "%a = Transpose (%x) {perm=[0,2,3,1]}\n%b = Conv2d (%a, %w)\n%d = BatchNorm (%b, %g, %g, %g, %v) {axis=3}\n%e = "
             "Clamp (%d) {lo=0}\n"
             "%h = Conv2d (%e, %u)\n%y = Transpose (%h) {perm=[0,3,1,2]}\noutput %y\n");
}

TEST_CASE("a residual block moves as a whole, constants and broadcast operands with it") {
  check_pass(passes::cancel_transposes,
             kIn + kWeights + random_f32("k", {3, 1, 1}, 5) + "%a = Transpose (%x)" + kToNhwc +
                 "%b = Conv2d (%a, %w) {pad=[1,1,1,1]}\n%c = Transpose (%b)" + kToNchw +
                 "%r = Mul (%c, %k)\n%d = Transpose (%r)" + kToNhwc +
                 "%e = Conv2d (%d, %u) {pad=[1,1,1,1]}\n%f = Transpose (%e)" + kToNchw +
                 "%s = Add (%r, %f)\n%m = Mean (%s) {axes=[2,3]}\n%y = Mul (%s, %m)\noutput %y\n",
             "%a = Transpose (%x) {perm=[0,2,3,1]}\n%b = Conv2d (%a, %w) {pad=[1,1,1,1]}\n%r = Mul (%b, %k.1)\n%e = Conv2d (%r, "
             "%u) {pad=[1,1,1,1]}\n"
             "%s = Add (%r, %e)\n%m = Mean (%s) {axes=[1,2]}\n%y.1 = Mul \"y\" (%s, %m)\n%y = Transpose \"y.transpose\" (%y.1) "
             "{perm=[0,3,1,2]}\noutput %y\n");
}

TEST_CASE("concat, slice, pad and softmax take their axes along") {
  check_pass(
      passes::cancel_transposes,
      kIn + "%a = Transpose (%x)" + kToNhwc + "%m = MaxPool2d (%a) {kernel=[2,2]}\n%b = Transpose (%m)" + kToNchw +
          "%c = Concat (%b, %b) {axis=1}\n%s = Slice (%c) {axes=[1,3], begins=[1,0], ends=[5,2], steps=[2,1]}\n"
          "%p = Pad (%s) {before=[0,1,0,0], after=[0,0,0,2]}\n%q = Softmax (%p) {axis=1}\n%y = Transpose (%q)" +
          kToNhwc + "output %y\n",
      "%a = Transpose (%x) {perm=[0,2,3,1]}\n%m = MaxPool2d (%a) {kernel=[2,2]}\n%c = Concat (%m, %m) {axis=3}\n"
      "%s = Slice (%c) {axes=[3,2], begins=[1,0], ends=[5,2], steps=[2,1]}\n%p = Pad (%s) {before=[0,0,0,1], after=[0,0,2,0]}\n"
      "%y = Softmax \"q\" (%p) {axis=3}\noutput %y\n");
}

TEST_CASE("flattening a 1x1 image and reducing without kept dims do not need the transpose") {
  check_pass(passes::cancel_transposes,
             kIn + "constant %t : s64[2] = [-1, 3]\n%a = Transpose (%x)" + kToNhwc +
                 "%m = Mean (%a) {axes=[1,2]}\n%b = Transpose (%m)" + kToNchw + "%y = Reshape (%b, %t)\noutput %y\n",
             "%m = Mean (%x) {axes=[2,3]}\n%y = Reshape (%m, %t)\noutput %y\n");
  check_pass(passes::cancel_transposes,
             kIn + "%a = Transpose (%x)" + kToNhwc + "%m = MaxPool2d (%a) {kernel=[2,2]}\n%b = Transpose (%m)" + kToNchw +
                 "%y = Mean (%b) {axes=[2,3], keep_dims=0}\noutput %y\n",
             "%a = Transpose (%x) {perm=[0,2,3,1]}\n%m = MaxPool2d (%a) {kernel=[2,2]}\n%y = Mean (%m) {axes=[1,2], "
             "keep_dims=0}\noutput %y\n");
}

TEST_CASE("a transpose of a reshape that moves axes of size 1 is a reshape") {
  check_pass(passes::cancel_transposes,
             "input %x : f32[N,3]\nconstant %t : s64[4] = [-1, 3, 1, 1]\n%a = Reshape (%x, %t)\n%b = Transpose (%a)" + kToNhwc +
                 "%y = Exp (%b)\noutput %y\n",
             "%b = Reshape (%x, %b.shape)\n%y = Exp (%b)\noutput %y\n");
}

TEST_CASE("a transpose sinks below an activation, so that the activation can be fused") {
  check_pass(passes::cancel_transposes,
             "input %x : f32[N,6,5,3]\n" + kWeights + "%b = Conv2d (%x, %w)\n%c = Transpose (%b)" + kToNchw +
                 "%y = Clamp (%c) {lo=0}\noutput %y\n",
             "%b = Conv2d (%x, %w)\n%y.1 = Clamp \"y\" (%b) {lo=0}\n%y = Transpose \"y.transpose\" (%y.1) "
             "{perm=[0,3,1,2]}\noutput %y\n");
}

TEST_CASE("transposes that nothing makes fewer stay") {
  check_untouched(passes::cancel_transposes, kIn + "%a = Transpose (%x)" + kToNhwc + "output %a\n");
  // The flattened order depends on the transpose.
  check_untouched(passes::cancel_transposes,
                  kIn + "constant %t : s64[2] = [-1, 90]\n%a = Transpose (%x)" + kToNhwc + "%y = Reshape (%a, %t)\noutput %y\n");
  // The other operand would need a transpose of its own, twice as often.
  check_untouched(passes::cancel_transposes, kIn + "input %z : f32[N,6,5,3]\n%a = Transpose (%x)" + kToNhwc +
                                                 "%b = Add (%a, %z)\n%c = Exp (%b)\noutput %b\noutput %c\n");
  // The axes that stay change their order.
  check_untouched(passes::cancel_transposes,
                  kIn + "%a = Transpose (%x) {perm=[0,3,2,1]}\n%y = Mean (%a) {axes=[3], keep_dims=0}\noutput %y\n");
}

TEST_CASE("equal transposes of one value become one, and constants are transposed at once") {
  check_pass(passes::cancel_transposes,
             kIn + "%a = Transpose (%x)" + kToNhwc + "%b = Transpose (%x)" + kToNhwc + "%m = MaxPool2d (%a) {kernel=[2,2]}\n" +
                 "%n = AvgPool2d (%b) {kernel=[2,2]}\noutput %m\noutput %n\n",
             "%a = Transpose (%x) {perm=[0,2,3,1]}\n%m = MaxPool2d (%a) {kernel=[2,2]}\n%n = AvgPool2d (%a) "
             "{kernel=[2,2]}\noutput %m\noutput %n\n");
  check_pass(
      passes::cancel_transposes,
      "input %x : f32[N,5,3]\n" + random_f32("k", {3, 5}, 1) + "%t = Transpose (%k) {perm=[1,0]}\n%y = Mul (%x, %t)\noutput %y\n",
      "%y = Mul (%x, %k.1)\noutput %y\n");
}

const std::string kFlatten =
    "input %x : f32[N,4,5,3]\n%m = MaxPool2d (%x) {kernel=[2,2]}\n%t = Transpose (%m) {perm=[0,3,1,2]}\n" +
    random_f32("w", {2, 36}, 1);

TEST_CASE("a transpose before flattening goes into the fully connected weights") {
  check_pass(passes::fold_flatten,
             kFlatten + "constant %s : s64[2] = [-1, 36]\n%f = Reshape (%t, %s)\n%y = FullyConnected (%f, %w)\noutput %y\n",
             "%m = MaxPool2d (%x) {kernel=[2,2]}\n%f = Reshape (%m, %s)\n%y = FullyConnected (%f, %w.1)\noutput %y\n");
}

TEST_CASE("a flattening that others read, that mixes samples, or whose weights are no constant keeps its transpose") {
  const std::string flat = "constant %s : s64[2] = [-1, 36]\n%f = Reshape (%t, %s)\n%y = FullyConnected (%f, %w)\noutput %y\n";
  check_untouched(passes::fold_flatten, kFlatten + flat + "output %f\n");
  check_untouched(passes::fold_flatten,
                  "input %x : f32[2,3,4,3]\n%t = Transpose (%x) {perm=[1,0,3,2]}\n" + random_f32("w", {2, 24}, 1) +
                      "constant %s : s64[2] = [-1, 24]\n%f = Reshape (%t, %s)\n%y = FullyConnected (%f, %w)\noutput %y\n");
  check_untouched(passes::fold_flatten,
                  "input %x : f32[N,3,4,3]\n%t = Transpose (%x) {perm=[0,3,1,2]}\n" + random_f32("w", {2, 4}, 1) +
                      "constant %s : s64[2] = [-1, 4]\n%f = Reshape (%t, %s)\n%y = FullyConnected (%f, %w)\noutput %y\n");
  check_untouched(passes::fold_flatten,
                  "input %x : f32[N,4,3]\ninput %w : f32[2,12]\n%t = Transpose (%x) {perm=[0,2,1]}\n"
                  "constant %s : s64[2] = [-1, 12]\n%f = Reshape (%t, %s)\n%y = FullyConnected (%f, %w)\noutput %y\n");
}

}  // namespace
}  // namespace lathe::test
