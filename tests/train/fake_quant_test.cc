// Rounding to a learned grid against its definitions: finite differences say nothing about a function that is made of steps.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "graph/grad/gradient.h"
#include "lathe/arith.h"
#include "runtime/host/cpu.h"
#include "tests/train/finite_difference.h"

namespace lathe::test {
namespace {

struct Grid {
  const char* dims;       // of x, which is [outer][channels][inner]
  size_t channels, inner;
  const char* axis;       // attribute text
  int32_t zero_point, qmin, qmax;
};

const Grid kGrids[] = {
    {"f32[5,7,3]", 1, 105, "", -128, -128, 127},
    {"f32[5,7,3]", 1, 105, "", 3, -128, 127},
    {"f32[4,5,2,3]", 4, 30, "axis=0, ", 0, -127, 127},
    {"f32[3,4,11]", 4, 11, "axis=1, ", 0, -7, 7},
    {"f32[40,3]", 3, 1, "axis=1, ", 0, -7, 7},
    {"f32[3,17000]", 1, 51000, "", 0, -7, 7},
};

std::vector<float> scales_of(size_t n, const Grid& g) {
  std::vector<float> s(n);
  for (size_t c = 0; c < n; ++c) s[c] = 2.1f / static_cast<float>(g.qmax - g.qmin + 1) * (1 + 0.5f * static_cast<float>(c));
  return s;
}

std::string list(const std::vector<float>& v) {
  std::string text;
  char one[32];
  for (const float f : v) {
    std::snprintf(one, sizeof one, "%s%.9g", text.empty() ? "" : ", ", static_cast<double>(f));
    text += one;
  }
  return "[" + text + "]";
}

// y, d loss / d x and d loss / d s of loss = sum y r for a fixed r.
struct Results {
  std::vector<float> x, r, y, dx, ds;
};

Results run(const Grid& g, const std::vector<float>& scales, uint32_t threads, kernels::IsaSet isa) {
  const auto rank = static_cast<size_t>(std::count(g.dims, g.dims + std::strlen(g.dims), ',')) + 1;
  const std::string scale_dims = g.axis[0] == 0 ? "f32[]" : "f32[" + std::to_string(g.channels) + "]";
  const std::string text = std::string("graph {\ninput %x : ") + g.dims + "\ninput %r : " + g.dims + "\nvariable %s : " + scale_dims + " = " +
                           list(scales) + "\n%y = FakeQuant (%x, %s) {" + g.axis + "zero_point=" + std::to_string(g.zero_point) +
                           ", qmin=" + std::to_string(g.qmin) + ", qmax=" + std::to_string(g.qmax) +
                           "}\n%p = Mul (%y, %r)\n%l = ReduceSum (%p) {axes=[" + std::string("0,1,2,3").substr(0, 2 * rank - 1) +
                           "], keep_dims=0}\noutput %x\noutput %r\noutput %y\n}";
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph, graph.error().message);
  const ValueId of[] = {graph->find_value("x"), graph->find_value("s")};
  const auto gradients = add_gradients(*graph, graph->find_value("l"), of);
  REQUIRE_MESSAGE(gradients, gradients.error().message);
  for (const ValueId v : *gradients) graph->add_output(v);
  const auto out = run_on_range(*graph, {-1.5f, 1.5f}, isa, threads);
  REQUIRE_MESSAGE(out, out.error().message);
  return {(*out)[0], (*out)[1], (*out)[2], (*out)[3], (*out)[4]};
}

TEST_CASE("rounding to a grid is quantize and dequantize; its gradients are those of the straight-through rule") {
  for (const Grid& g : kGrids) {
    CAPTURE(std::string(g.dims));
    CAPTURE(g.zero_point);
    const std::vector<float> scales = scales_of(g.channels, g);
    const Results r = run(g, scales, 1, *machine_isa());
    const double lo = g.qmin - g.zero_point, hi = g.qmax - g.zero_point;
    std::vector<double> ds(g.channels, 0.0);
    size_t wrong = 0, outside = 0;
    for (size_t i = 0; i < r.x.size(); ++i) {
      const size_t c = i / g.inner % g.channels;
      const float s = scales[c];
      const double v = static_cast<double>(r.x[i] / s);
      wrong += r.y[i] != dequantize(quantize(r.x[i], s, g.zero_point, g.qmin, g.qmax), s, g.zero_point);
      const bool inside = v >= lo && v <= hi;
      outside += !inside;
      wrong += r.dx[i] != (inside ? r.r[i] : 0.0f);
      ds[c] += double{r.r[i]} * (inside ? std::nearbyint(v) - v : v < lo ? lo : hi);
    }
    CHECK(wrong == 0);
    CHECK(outside > r.x.size() / 20);
    const double n = static_cast<double>(r.x.size() / g.channels), q = std::max(hi, -lo);
    for (size_t c = 0; c < g.channels; ++c) CHECK(double{r.ds[c]} == doctest::Approx(ds[c] / std::sqrt(n * q)).epsilon(1e-4));
    const Results threaded = run(g, scales, 3, *machine_isa());
    CHECK(threaded.y == r.y);
    CHECK(threaded.dx == r.dx);
    CHECK(threaded.ds == r.ds);
  }
}

TEST_CASE("a NaN goes through a grid, and a value on the edge of a range is inside") {
  auto graph = parse_graph(
      "graph {\nconstant %a : f32[4] = [-1, 9, 9, 12.25]\nconstant %b : f32[4] = [1, 1, -1, 1]\nvariable %s : f32[] = [1]\n"
      "variable %z : f32[4] = splat 0\n%r = Sqrt (%a)\n%x = Mul (%r, %b)\n%t = Add (%x, %z)\n%y = FakeQuant (%t, %s) {qmin=-3, qmax=3}\n%l = ReduceSum (%y) {axes=[0], keep_dims=0}\noutput %y\n}");
  REQUIRE_MESSAGE(graph, graph.error().message);
  const ValueId of[] = {graph->find_value("z")};
  const auto gradients = add_gradients(*graph, graph->find_value("l"), of);
  REQUIRE(gradients);
  graph->add_output((*gradients)[0]);
  const auto out = run_on_range(*graph, {}, *machine_isa(), 1);
  REQUIRE_MESSAGE(out, out.error().message);
  CHECK(std::isnan((*out)[0][0]));
  CHECK((*out)[0][3] == 3.0f);
  CHECK((*out)[1] == std::vector<float>{0, 1, 1, 0});
}

// d y / d u of y = StepSize(u, s) with a gradient dy = g.
TEST_CASE("scales stay within their factors, and a factor outside comes back when its gradient says so") {
  auto graph = parse_graph(
      "graph {\nvariable %u : f32[6] = [1, 0.75, 0.1, 0.1, 9, 9]\nconstant %s : f32[6] = [2, 4, 2, 2, 2, 2]\nconstant %g : f32[6] = [1, -3, 1, "
      "-1, 1, -1]\n%y = StepSize (%u, %s) {lo=0.5, hi=3}\n%p = Mul (%y, %g)\n%l = ReduceSum (%p) {axes=[0], keep_dims=0}\noutput %y\n}");
  REQUIRE_MESSAGE(graph, graph.error().message);
  const ValueId of[] = {graph->find_value("u")};
  const auto gradients = add_gradients(*graph, graph->find_value("l"), of);
  REQUIRE_MESSAGE(gradients, gradients.error().message);
  graph->add_output((*gradients)[0]);
  const auto out = run_on_range(*graph, {}, *machine_isa(), 1);
  REQUIRE_MESSAGE(out, out.error().message);
  CHECK((*out)[0] == std::vector<float>{2, 3, 1, 1, 6, 6});
  CHECK((*out)[1] == std::vector<float>{0.5f, -0.75f, 0, -0.5f, 0.5f, 0});
}

}  // namespace
}  // namespace lathe::test
