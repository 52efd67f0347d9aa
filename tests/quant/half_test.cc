#include "quant/half.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "graph/lower/lower.h"
#include "lathe/float16.h"
#include "tests/graph/graph_run.h"
#include "tests/kernels/under_test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// Every kind of op: native, widened, and one that moves bytes; a depthwise and a grouped convolution, padding and a residual.
std::string network() {
  return "input %x : f32[2,9,9,3]\n" + random_f32("w1", {20, 3, 3, 3}, 1) + random_f32("b1", {20}, 2) +
         random_f32("w2", {20, 3, 3, 1}, 3) + random_f32("w3", {20, 1, 1, 20}, 4) + random_f32("b3", {20}, 5) +
         random_f32("w4", {40, 3, 3, 10}, 6) + random_f32("w5", {10, 40}, 7) + random_f32("scale", {40}, 8, 0.5f, 2.0f) +
         "%a = Conv2d (%x, %w1, %b1) {pad=[1,1,1,1], lo=0, hi=6}\n"
         "%d = Conv2d (%a, %w2) {pad=[1,1,1,1], groups=20}\n"
         "%r = Conv2d (%d, %w3, %b3, %a)\n"
         "%g = Conv2d (%r, %w4) {pad=[1,1,1,1], stride=[2,2], groups=2, lo=0}\n"
         "%s = Sigmoid (%g)\n"
         "%m = Mul (%g, %scale)\n"
         "%c = Concat (%s, %m) {axis=1}\n"
         "%p = MaxPool2d (%c) {kernel=[2,2], stride=[2,2]}\n"
         "%h = Mean (%p) {axes=[1,2], keep_dims=0}\n"
         "%f = FullyConnected (%h, %w5)\n"
         "%y = Softmax (%f) {axis=1}\n"
         "output %y\noutput %g\n";
}

const HalfRow& row(const HalfResult& r, const std::string& node) {
  const auto it = std::find_if(r.rows.begin(), r.rows.end(), [&](const HalfRow& h) { return h.node == node; });
  REQUIRE(it != r.rows.end());
  return *it;
}

HalfResult halved(const Graph& g, const HalfOptions& options = {}) {
  auto r = half_graph(g, options);
  REQUIRE_MESSAGE(r, r.error().message);
  const auto good = verify(r->graph);
  REQUIRE_MESSAGE(good, good.error().message);
  return std::move(*r);
}

DType dtype_of(const Graph& g, const std::string& value) { return g.value(g.find_value(value)).type.dtype; }

size_t count(const Graph& g, Op op) {
  return static_cast<size_t>(std::count_if(g.order().begin(), g.order().end(), [&](NodeId n) { return g.node(n).op == op; }));
}

}  // namespace

TEST_CASE("a float network becomes half between its inputs and outputs, biases aside") {
  const Graph g = parsed(network());
  const HalfResult r = halved(g);
  for (const HalfRow& h : r.rows) CHECK_MESSAGE(h.half, h.node << ": " << h.reason);
  for (const char* value : {"a", "d", "r", "s", "m", "c", "p", "h", "f"}) CHECK(dtype_of(r.graph, value) == DType::kF16);
  CHECK(dtype_of(r.graph, "x") == DType::kF32);
  CHECK(dtype_of(r.graph, "y") == DType::kF32);
  CHECK(dtype_of(r.graph, "g") == DType::kF32);
  CHECK(dtype_of(r.graph, "b1") == DType::kF32);
  CHECK(count(r.graph, Op::kCast) == 3);  // one input, two outputs
}

TEST_CASE("a half network computes the float one within half precision, on every instruction set") {
  const Graph g = parsed(network());
  const HalfResult r = halved(g);
  const auto want = run_graph(g);
  std::vector<kernels::IsaSet> levels;
  for (const auto& level : kernels::kIsaLevels) {
    if (!kernels::covers(kernels::runnable_isa(), level.set)) continue;
    const double difference = relative_difference(run_graph(r.graph, {.isa = level.set}), want);
    INFO(level.name);
    CHECK(difference < 4e-3);
    CHECK(difference > 1e-7);  // it does round
    levels.push_back(level.set);
  }
  CHECK(levels.size() > 0);
}

TEST_CASE("nodes stay float where they are told to, where calibration saw too much, or where they have no half form") {
  const Graph g = parsed(network());
  const HalfResult r = halved(g, {.keep_float = {"softmax", "d"}, .ranges = {{"g", {-3.0, 40000.0}}, {"m", {-32768.0, 1.0}}}});
  CHECK(!row(r, "y").half);
  CHECK(!row(r, "d").half);
  CHECK(!row(r, "g").half);
  CHECK(row(r, "g").reason == "calibration saw 40000");
  CHECK(row(r, "m").half);
  CHECK(dtype_of(r.graph, "d") == DType::kF32);
  CHECK(relative_difference(run_graph(r.graph), run_graph(g)) < 4e-3);

  const auto unknown = half_graph(g, {.keep_float = {"no_such_node"}});
  REQUIRE(!unknown);
  CHECK(unknown.error().message.find("no_such_node") != std::string::npos);
}

TEST_CASE("elementwise operators and transposed convolutions take halves as they are, the others between Casts") {
  const Graph g = parsed("input %x : f32[1,7,9,96]\n" + random_f32("w", {33, 2, 2, 96}, 1) + random_f32("row", {33}, 2) +
                         random_f32("one", {1}, 3) + random_f32("line", {14, 1, 33}, 4) + random_f32("column", {18, 1}, 5) +
                         "%u = ConvTranspose2d (%x, %w) {stride=[2,2], lo=-6, hi=6}\n"
                         "%s = Silu (%u)\n%l = LeakyRelu (%s) {alpha=0.1}\n%c = Clamp (%l) {lo=-1, hi=2}\n"
                         "%a = Add (%c, %row) {lo=0}\n%m = Mul (%one, %a)\n%d = Sub (%m, %u)\n%t = Div (%d, %d)\n"
                         "%e = Mul (%d, %line)\n%f = Add (%column, %e)\noutput %f\n"
                         "%y = Abs (%t)\noutput %y\noutput %d\n");
  const HalfResult r = halved(g);
  CHECK(relative_difference(run_graph(r.graph), run_graph(g)) < 4e-3);
  const auto image = lower(r.graph, Target::kHost);
  REQUIRE_MESSAGE(image, image.error().message);
  const auto casts = std::count_if(image->steps.begin(), image->steps.end(), [](const auto& s) { return s.op == "Cast"; });
  CHECK(casts == 6);  // the input, three outputs, and before and behind Abs
}

TEST_CASE("pools, softmax and products of halves compute the float ones within half precision, without Casts between") {
  const char* lines[] = {
      "input %x : f32[2,7,9,20]\n%y = MaxPool2d (%x) {kernel=[3,3], stride=[2,2], pad=[1,1,1,1]}\n",
      "input %x : f32[1,8,8,5]\n%y = MaxPool2d (%x) {kernel=[2,2], stride=[2,2], dilation=[3,2], ceil_mode=1}\n",
      "input %x : f32[2,6,5,33]\n%y = AvgPool2d (%x) {kernel=[3,2], pad=[2,1,1,1], count_pad=1}\n",
      "input %x : f32[1,9,9,16]\n%y = AvgPool2d (%x) {kernel=[4,4], stride=[3,3], pad=[1,0,2,1], ceil_mode=1}\n",
      "input %x : f32[1,5,4,8]\n%y = AvgPool2d (%x) {kernel=[3,3], stride=[3,3], pad=[0,0,2,2], ceil_mode=1, count_pad=1}\n",
      "input %x : f32[3,40,70]\n%y = Softmax (%x) {axis=2}\n",
      "input %x : f32[3,70,11]\n%y = Softmax (%x) {axis=1}\n",
      "input %x : f32[2,5000]\n%y = Softmax (%x) {axis=1}\n",
      "input %x : f32[2,30,17]\ninput %b : f32[2,17,70]\n%y = MatMul (%x, %b) {scale=0.25}\n",
      "input %x : f32[2,3,50,12]\ninput %b : f32[2,3,40,12]\n%y = MatMul (%x, %b) {b_perm=[0,1,3,2], lo=-1}\n",
      "input %x : f32[4,200,9]\ninput %b : f32[9,21,4]\n%y = MatMul (%x, %b) {b_perm=[2,0,1]}\n",
      "input %x : f32[1,130,8]\ninput %b : f32[8,300]\n%y = MatMul (%x, %b)\n",
  };
  for (const std::string line : lines) {
    INFO(line);
    const Graph g = parsed(line + "output %y\n");
    const HalfResult r = halved(g);
    const auto want = run_graph(g);
    for (const auto isa : {kernels::kIsaScalar, kernels::runnable_isa()})
      CHECK(relative_difference(run_graph(r.graph, {.isa = isa}), want) < 4e-3);
    const auto image = lower(r.graph, Target::kHost);
    REQUIRE_MESSAGE(image, image.error().message);
    const auto casts = std::count_if(image->steps.begin(), image->steps.end(), [](const auto& s) { return s.op == "Cast"; });
    CHECK(static_cast<size_t>(casts) == g.inputs().size() + 1);
  }
}

TEST_CASE("a constant that half and float operators share is there in both types") {
  const Graph g = parsed("input %x : f32[3,4]\n" + random_f32("c", {4}, 1) + "%a = Add (%x, %c)\n%y = Mul (%a, %c)\noutput %y\n");
  for (const char* node : {"a", "y"}) {
    HalfOptions options;
    options.only = std::set<std::string>{node};
    const HalfResult r = halved(g, options);
    CHECK(row(r, node).half);
    CHECK(count(r.graph, Op::kCast) == 2);
    CHECK(relative_difference(run_graph(r.graph), run_graph(g)) < 4e-3);
  }
}

TEST_CASE("a Cast to float32 gives float32, whatever becomes of its neighbours") {
  const Graph g = parsed("input %x : f32[3,4]\n" + random_f32("w", {5, 4}, 1) + random_f32("z", {4}, 2) +
                         "%b = Less (%x, %z)\n%f = Cast (%b) {to=1}\n%y = FullyConnected (%f, %w)\noutput %y\n");
  const HalfResult r = halved(g);
  CHECK(dtype_of(r.graph, "f") == DType::kF32);
  CHECK(relative_difference(run_graph(r.graph), run_graph(g)) < 4e-3);
}

TEST_CASE("constants beyond the largest half are clamped and listed, those that are not finite are refused") {
  const auto graph = [](const std::string& values) {
    return parsed("input %x : f32[4,2]\nconstant %w : f32[1,2] = " + values + "\n%y = FullyConnected (%x, %w)\noutput %y\n");
  };
  const HalfResult r = halved(graph("[70000, -65504]"));
  REQUIRE(r.clamped.size() == 1);
  CHECK(r.clamped[0] == "w: 1");
  const auto w = r.graph.value(r.graph.find_value("w")).constant.as<uint16_t>();
  CHECK(half_to_float(w[0]) == 65504.0f);
  CHECK(half_to_float(w[1]) == -65504.0f);
  CHECK(halved(graph("[65504, 1]")).clamped.empty());
}

TEST_CASE("an operator bounded by infinity stays float, and says so") {
  const Graph g = parsed("input %x : f32[2,3]\nconstant %least : f32[] = [-inf]\n" + random_f32("w", {4, 3}, 1) +
                         "%m = Max (%x, %least)\n%y = FullyConnected (%m, %w)\noutput %y\n");
  const HalfResult r = halved(g);
  CHECK(row(r, "m").reason == "constant 'least' is not finite");
  CHECK(row(r, "y").half);
  CHECK(relative_difference(run_graph(r.graph), run_graph(g)) < 4e-3);
}

TEST_CASE("an op without a half form is refused when it is lowered, by name") {
  const Graph g = parsed("input %x : f16[3]\n%y = Shape (%x)\noutput %y\n");
  const auto image = lower(g, Target::kHost);
  REQUIRE(!image);
  CHECK(image.error().message.find("Shape 'y'") != std::string::npos);
}
