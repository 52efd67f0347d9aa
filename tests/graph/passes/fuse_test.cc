// Fusions: text before and after, what must not match, and equal numbers.
#include <doctest/doctest.h>

#include "graph/graph_run.h"
#include "graph/passes/passes.h"

namespace lathe::test {
namespace {

const std::string kImage = "input %x : f32[N,6,6,3]\n" + random_f32("w", {4, 3, 3, 3}, 1) + random_f32("b", {4}, 2);
const std::string kBatchNorm =
    random_f32("g", {4}, 3, 0.5f, 1.5f) + random_f32("h", {4}, 4) + random_f32("m", {4}, 5) + random_f32("v", {4}, 6, 0.5f, 2.0f);

TEST_CASE("a batch norm goes into the convolution before it, with and without bias") {
  check_pass(
      passes::fold_batchnorm,
      kImage + kBatchNorm + "%c = Conv2d (%x, %w, %b)\n%y = BatchNorm (%c, %g, %h, %m, %v) {axis=3, epsilon=0.001}\noutput %y\n",
      "%y = Conv2d \"c\" (%x, %c.weight, %c.bias)\noutput %y\n");
  check_pass(passes::fold_batchnorm,
             kImage + kBatchNorm +
                 "%c = Conv2d (%x, %w)\n%n = BatchNorm (%c, %g, %h, %m, %v) {axis=3}\n%y = Clamp (%n) {lo=0}\noutput %y\n",
             "%c = Conv2d (%x, %c.weight, %c.bias)\n%y = Clamp (%c) {lo=0}\noutput %y\n");
}

TEST_CASE("a batch norm goes into grouped convolutions and fully connected ops") {
  check_pass(passes::fold_batchnorm,
             "input %x : f32[N,6,6,4]\n" + random_f32("w", {4, 3, 3, 2}, 1) + kBatchNorm +
                 "%c = Conv2d (%x, %w) {groups=2}\n%y = BatchNorm (%c, %g, %h, %m, %v) {axis=3}\noutput %y\n",
             "%y = Conv2d \"c\" (%x, %c.weight, %c.bias) {groups=2}\noutput %y\n");
  check_pass(passes::fold_batchnorm,
             "input %x : f32[N,5]\n" + random_f32("w", {4, 5}, 1) + kBatchNorm +
                 "%c = FullyConnected (%x, %w)\n%y = BatchNorm (%c, %g, %h, %m, %v) {axis=1}\noutput %y\n",
             "%y = FullyConnected \"c\" (%x, %c.weight, %c.bias)\noutput %y\n");
}

TEST_CASE("a batch norm stays where the convolution has other readers, another axis or an activation") {
  const std::string norm = "%y = BatchNorm (%c, %g, %h, %m, %v) {axis=3}\noutput %y\n";
  check_untouched(passes::fold_batchnorm, kImage + kBatchNorm + "%c = Conv2d (%x, %w)\n" + norm + "output %c\n");
  check_untouched(passes::fold_batchnorm, kImage + kBatchNorm + "%c = Conv2d (%x, %w)\n%z = Exp (%c)\n" + norm + "output %z\n");
  check_untouched(passes::fold_batchnorm, kImage + kBatchNorm + "%c = Conv2d (%x, %w) {lo=0}\n" + norm);
  check_untouched(passes::fold_batchnorm,
                  kImage + kBatchNorm + "%c = Conv2d (%x, %w)\n%y = BatchNorm (%c, %g, %h, %m, %v) {axis=1}\noutput %y\n");
  check_untouched(
      passes::fold_batchnorm,
      kImage + kBatchNorm + "input %s : f32[4]\n%c = Conv2d (%x, %w)\n%y = BatchNorm (%c, %s, %h, %m, %v) {axis=3}\noutput %y\n");
}

TEST_CASE("a batch norm without a convolution becomes a multiplication and an addition") {
  check_pass(passes::split_batchnorm,
             "input %x : f32[N,4,5]\n" + kBatchNorm + "%y = BatchNorm (%x, %g, %h, %m, %v) {axis=1}\noutput %y\n",
             "%y.mul = Mul (%x, %y.scale)\n%y = Add (%y.mul, %y.shift)\noutput %y\n");
  check_untouched(passes::split_batchnorm, "input %x : f32[N,4,5]\ninput %s : f32[4]\n" + kBatchNorm +
                                               "%y = BatchNorm (%x, %s, %h, %m, %v) {axis=1}\noutput %y\n");
  check_untouched(passes::split_batchnorm, "input %x : f32[N,4,5]\n" + random_f32("h", {4}, 4) +
                                               random_f32("v", {4}, 6, -2.0f, -1.0f) +
                                               "%y = BatchNorm (%x, %h, %h, %h, %v) {axis=1}\noutput %y\n");
}

TEST_CASE("a constant added per channel becomes the bias") {
  check_pass(passes::fuse_bias,
             kImage + random_f32("k", {1, 1, 4}, 7) + "%c = Conv2d (%x, %w, %b)\n%y = Add (%k, %c) {lo=0}\noutput %y\n",
             "%y = Conv2d \"c\" (%x, %w, %c.bias) {lo=0}\noutput %y\n");
  check_pass(passes::fuse_bias,
             "input %x : f32[N,5]\n" + random_f32("w", {4, 5}, 1) + random_f32("k", {4}, 7) +
                 "%c = FullyConnected (%x, %w)\n%y = Sub (%c, %k)\noutput %y\n",
             "%y = FullyConnected \"c\" (%x, %w, %c.bias)\noutput %y\n");
  check_pass(passes::fuse_bias, kImage + "constant %k : f32[] = [0.5]\n%c = Conv2d (%x, %w)\n%y = Add (%c, %k)\noutput %y\n",
             "%y = Conv2d \"c\" (%x, %w, %c.bias)\noutput %y\n");
}

TEST_CASE("what is no bias is not fused as one") {
  check_untouched(passes::fuse_bias,
                  kImage + random_f32("k", {4, 1}, 7) + "%c = Conv2d (%x, %w)\n%y = Add (%c, %k)\noutput %y\n");  // along rows
  check_untouched(passes::fuse_bias,
                  kImage + random_f32("k", {4}, 7) + "%c = Conv2d (%x, %w)\n%y = Sub (%k, %c)\noutput %y\n");  // reversed
  check_untouched(passes::fuse_bias, kImage + random_f32("k", {4}, 7) +
                                         "%c = Conv2d (%x, %w) {lo=0}\n%y = Add (%c, %k)\noutput %y\n");  // clamped first
  check_untouched(passes::fuse_bias,
                  kImage + "input %k : f32[4]\n%c = Conv2d (%x, %w)\n%y = Add (%c, %k)\noutput %y\n");  // not constant
  check_untouched(passes::fuse_bias,
                  kImage + random_f32("k", {4}, 7) + "%c = Conv2d (%x, %w)\n%y = Add (%c, %k)\noutput %y\noutput %c\n");
}

TEST_CASE("zero padding goes into convolutions and pools") {
  check_pass(passes::fuse_pad,
             kImage + "%p = Pad (%x) {before=[0,1,2,0], after=[0,2,1,0]}\n%y = Conv2d (%p, %w) {pad=[1,0,0,0]}\noutput %y\n",
             "%y = Conv2d (%x, %w) {pad=[2,2,2,1]}\noutput %y\n");
  check_pass(
      passes::fuse_pad,
      kImage + "%p = Pad (%x) {before=[0,1,1,0], after=[0,1,1,0]}\n%y = AvgPool2d (%p) {kernel=[2,2], stride=[2,2]}\noutput %y\n",
      "%y = AvgPool2d (%x) {kernel=[2,2], stride=[2,2], pad=[1,1,1,1], count_pad=1}\noutput %y\n");
  check_pass(passes::fuse_pad,
             kImage +
                 "%p = Pad (%x) {before=[0,1,1,0], after=[0,1,1,0], value=-inf}\n%y = MaxPool2d (%p) {kernel=[2,2], "
                 "stride=[2,2]}\noutput %y\n",
             "%y = MaxPool2d (%x) {kernel=[2,2], stride=[2,2], pad=[1,1,1,1]}\noutput %y\n");
  // Another reader keeps the Pad, the convolution does without.
  check_pass(passes::fuse_pad,
             kImage + "%p = Pad (%x) {before=[0,1,1,0], after=[0,1,1,0]}\n%y = Conv2d (%p, %w)\noutput %y\noutput %p\n",
             "%p = Pad (%x) {before=[0,1,1,0], after=[0,1,1,0]}\n%y = Conv2d (%x, %w) {pad=[1,1,1,1]}\noutput %y\noutput %p\n");
}

TEST_CASE("padding that an op cannot do itself stays") {
  const std::string conv = "%y = Conv2d (%p, %w)\noutput %y\n";
  check_untouched(passes::fuse_pad, kImage + "%p = Pad (%x) {before=[0,1,1,0], after=[0,1,1,0], value=1}\n" + conv);
  check_untouched(passes::fuse_pad, kImage + "%p = Pad (%x) {before=[0,1,-1,0], after=[0,1,1,0]}\n" + conv);
  check_untouched(passes::fuse_pad, kImage + "%p = Pad (%x) {before=[1,0,0,0], after=[0,0,0,0]}\n" + conv);
  check_untouched(passes::fuse_pad,
                  kImage + "%p = Pad (%x) {before=[0,1,1,0], after=[0,1,1,0]}\n%y = MaxPool2d (%p) {kernel=[2,2]}\noutput %y\n");
  check_untouched(
      passes::fuse_pad,
      kImage +
          "%p = Pad (%x) {before=[0,1,1,0], after=[0,1,1,0]}\n%y = AvgPool2d (%p) {kernel=[3,3], pad=[1,1,1,1]}\noutput %y\n");
}

TEST_CASE("clamps of clamps become one") {
  check_pass(passes::fuse_clamps,
             "input %x : f32[N,4]\n%a = Clamp (%x) {lo=-1}\n%b = Clamp (%a) {lo=0, hi=1.5}\n%y = Clamp (%b) {hi=1}\noutput %y\n",
             "%y = Clamp (%x) {lo=0, hi=1}\noutput %y\n");
  // Ranges that do not meet: everything becomes the second's nearer bound.
  check_pass(passes::fuse_clamps,
             "input %x : f32[N,4]\n%a = Clamp (%x) {lo=0, hi=0.5}\n%y = Clamp (%a) {lo=1, hi=2}\noutput %y\n",
             "%y = Clamp (%x) {lo=1, hi=1}\noutput %y\n");
  check_untouched(passes::fuse_clamps,
                  "input %x : f32[N,4]\n%a = Clamp (%x) {lo=-1}\n%y = Clamp (%a) {lo=0}\noutput %y\noutput %a\n");
  check_untouched(passes::fuse_clamps,
                  "input %x : f32[N,4]\n%a = Clamp (%x) {lo=-1}\n%y = Clamp (%a) {lo=0}\n%z = Exp (%a)\noutput %y\noutput %z\n");
}

TEST_CASE("a clamp goes into the op before it") {
  check_pass(passes::fuse_activation, kImage + "%c = Conv2d (%x, %w)\n%y = Clamp (%c) {lo=0, hi=6}\noutput %y\n",
             "%y = Conv2d \"c\" (%x, %w) {lo=0, hi=6}\noutput %y\n");
  check_pass(passes::fuse_activation,
             "input %x : f32[N,4]\ninput %z : f32[N,4]\n%c = Add (%x, %z) {hi=1}\n%y = Clamp (%c) {lo=0}\noutput %y\n",
             "%y = Add \"c\" (%x, %z) {lo=0, hi=1}\noutput %y\n");
  check_untouched(passes::fuse_activation, kImage + "%c = Conv2d (%x, %w)\n%y = Clamp (%c) {lo=0}\noutput %y\noutput %c\n");
  check_untouched(passes::fuse_activation,
                  kImage + "%c = Conv2d (%x, %w)\n%y = Clamp (%c) {lo=0}\n%z = Add (%y, %c)\noutput %z\n");
  check_untouched(passes::fuse_activation, "input %x : f32[N,4]\n%c = Exp (%x)\n%y = Clamp (%c) {hi=1}\noutput %y\n");
}

}  // namespace
}  // namespace lathe::test
