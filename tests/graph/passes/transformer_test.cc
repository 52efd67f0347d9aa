#include <doctest/doctest.h>

#include "graph/graph_run.h"
#include "graph/passes/passes.h"

namespace lathe::test {
namespace {

const std::string kNumbers =
    "constant %root : f32[] = splat 1.4142135\nconstant %one : f32[] = splat 1\nconstant %half : f32[1] = splat 0.5\n"
    "constant %inverse : f32[] = splat 0.70710677\nconstant %two : f32[] = splat 2\n";
const std::string kX = "input %x : f32[N,5,8]\n" + kNumbers;
const std::string kErf = "%s = Div (%x, %root)\n%e = Erf (%s)\n%p = Add (%e, %one)\n";

TEST_CASE("GELU with the error function, in the orders that exporters write it") {
  const std::string fused = "%y = Gelu (%x)\noutput %y\n";
  const auto becomes = [&](const std::string& body) { check_pass(passes::fuse_gelu, kX + body, fused); };
  becomes(kErf + "%q = Mul (%x, %p)\n%y = Mul (%q, %half)\noutput %y\n");
  becomes(kErf + "%q = Mul (%half, %x)\n%y = Mul (%p, %q)\noutput %y\n");
  becomes(kErf + "%q = Mul (%p, %half)\n%y = Mul (%x, %q)\noutput %y\n");
  becomes("%s = Mul (%inverse, %x)\n%e = Erf (%s)\n%p = Add (%one, %e)\n%q = Mul (%x, %p)\n%y = Mul (%q, %half)\noutput %y\n");
}

TEST_CASE("what only looks like GELU stays") {
  const auto untouched = [](const std::string& body) { check_untouched(passes::fuse_gelu, kX + body); };
  untouched(kErf + "%q = Mul (%x, %p)\n%y = Mul (%q, %two)\noutput %y\n");                       // another factor
  untouched(kErf + "%q = Mul (%x, %p)\n%y = Mul (%q, %half)\noutput %y\noutput %e\n");            // read elsewhere
  untouched("input %z : f32[N,5,8]\n" + kErf + "%q = Mul (%z, %p)\n%y = Mul (%q, %half)\noutput %y\n");  // another operand
  untouched(kErf + "%q = Mul (%x, %p) {lo=0}\n%y = Mul (%q, %half)\noutput %y\n");                // a clamp between
  untouched("%s = Div (%x, %two)\n%e = Erf (%s)\n%p = Add (%e, %one)\n%q = Mul (%x, %p)\n%y = Mul (%q, %half)\noutput %y\n");
}

TEST_CASE("x times its sigmoid is SiLU") {
  check_pass(passes::fuse_silu, kX + "%g = Sigmoid (%x)\n%y = Mul (%x, %g)\noutput %y\n", "%y = Silu (%x)\noutput %y\n");
  check_pass(passes::fuse_silu, kX + "%g = Sigmoid (%x)\n%y = Mul (%g, %x)\noutput %y\n", "%y = Silu (%x)\noutput %y\n");
  const auto untouched = [](const std::string& body) { check_untouched(passes::fuse_silu, kX + body); };
  untouched("%g = Sigmoid (%x)\n%y = Mul (%x, %g)\noutput %y\noutput %g\n");
  untouched("%g = Sigmoid (%x)\n%y = Mul (%x, %g) {hi=1}\noutput %y\n");
  untouched("input %z : f32[N,5,8]\n%g = Sigmoid (%z)\n%y = Mul (%x, %g)\noutput %y\n");
}

const std::string kAffine = random_f32("scale", {8}, 1) + random_f32("bias", {1, 1, 8}, 2) + random_f32("rows", {5, 1}, 3) +
                            "constant %eps : f32[] = splat 1e-05\n";
const std::string kMoments = "%m = Mean (%x) {axes=[2]}\n%d = Sub (%x, %m)\n%sq = Mul (%d, %d)\n%v = Mean (%sq) {axes=[2]}\n"
                             "%ve = Add (%v, %eps)\n%r = Sqrt (%ve)\n%n = Div (%d, %r)\n";

TEST_CASE("layer normalization that is written out becomes one op") {
  const auto becomes = [](const std::string& body, const std::string& expected) {
    check_pass(passes::fuse_layer_norm, kX + kAffine + body, expected);
  };
  becomes(kMoments + "%g = Mul (%n, %scale)\n%y = Add (%g, %bias)\noutput %y\n",
          "%y = LayerNorm (%x, %g.scale, %g.bias) {axis=2}\noutput %y\n");
  becomes(kMoments + "%y = Mul (%scale, %n)\noutput %y\n", "%y = LayerNorm (%x, %y.scale) {axis=2}\noutput %y\n");
  // The difference twice, as older exporters write it.
  becomes("%m = Mean (%x) {axes=[2]}\n%d = Sub (%x, %m)\n%d2 = Sub (%x, %m)\n%sq = Mul (%d2, %d2)\n%v = Mean (%sq) {axes=[2]}\n"
          "%ve = Add (%eps, %v)\n%r = Sqrt (%ve)\n%n = Div (%d, %r)\n%g = Mul (%n, %scale)\n%y = Add (%bias, %g)\noutput %y\n",
          "%y = LayerNorm (%x, %g.scale, %g.bias) {axis=2}\noutput %y\n");
}

TEST_CASE("what only looks like layer normalization stays") {
  const auto untouched = [](const std::string& body) { check_untouched(passes::fuse_layer_norm, kX + kAffine + body); };
  untouched(kMoments + "%y = Mul (%n, %rows)\noutput %y\n");                              // a factor per row
  untouched(kMoments + "%y = Mul (%n, %scale)\noutput %y\noutput %v\n");                  // the variance is read elsewhere
  untouched(kMoments + "output %n\n");                                                    // no scale
  untouched("%m = Mean (%x) {axes=[1]}\n%d = Sub (%x, %m)\n%sq = Mul (%d, %d)\n%v = Mean (%sq) {axes=[1]}\n%ve = Add (%v, %eps)\n"
            "%r = Sqrt (%ve)\n%n = Div (%d, %r)\n%y = Mul (%n, %scale)\noutput %y\n");    // another axis
  untouched(
      "input %z : f32[N,5,8]\n%m = Mean (%z) {axes=[2]}\n%d = Sub (%x, %m)\n%sq = Mul (%d, %d)\n%v = Mean (%sq) {axes=[2]}\n"
      "%ve = Add (%v, %eps)\n%r = Sqrt (%ve)\n%n = Div (%d, %r)\n%y = Mul (%n, %scale)\noutput %y\n");
}

}  // namespace
}  // namespace lathe::test
