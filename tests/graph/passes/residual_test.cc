#include <doctest/doctest.h>

#include "graph/graph_run.h"
#include "graph/passes/passes.h"

namespace lathe::test {
namespace {

const std::string kBlock = "input %x : f32[N,6,6,4]\n" + random_f32("w", {4, 3, 3, 4}, 1) + random_f32("u", {4, 3, 3, 4}, 2) +
                           random_f32("p", {4, 1, 1, 4}, 3);
const std::string kPads = " {pad=[1,1,1,1]}\n";

TEST_CASE("a shortcut becomes the residual of the last convolution") {
  check_pass(
      passes::fuse_residual,
      kBlock + "%a = Conv2d (%x, %w) {pad=[1,1,1,1], lo=0}\n%b = Conv2d (%a, %u)" + kPads + "%y = Add (%b, %x)\noutput %y\n",
      "%a = Conv2d (%x, %w) {pad=[1,1,1,1], lo=0}\n%y = Conv2d \"b\" (%a, %u, _, %x) {pad=[1,1,1,1]}\noutput %y\n");
  check_pass(passes::fuse_residual, kBlock + "%b = Conv2d (%x, %u)" + kPads + "%y = Add (%x, %b) {lo=0}\noutput %y\n",
             "%y = Conv2d \"b\" (%x, %u, _, %x) {pad=[1,1,1,1], lo=0}\noutput %y\n");
}

TEST_CASE("of two convolutions the later one takes the residual, once") {
  check_pass(passes::fuse_residual,
             kBlock + "%a = Conv2d (%x, %w)" + kPads + "%d = Conv2d (%x, %p)\n%y = Add (%a, %d)\noutput %y\n",
             "%a = Conv2d (%x, %w) {pad=[1,1,1,1]}\n%y = Conv2d \"d\" (%x, %p, _, %a)\noutput %y\n");
  check_pass(passes::fuse_residual,
             kBlock + "%a = Conv2d (%x, %w)" + kPads + "%s = Add (%a, %x)\n%y = Add (%s, %x)\noutput %y\n",
             "%a = Conv2d (%x, %w, _, %x) {pad=[1,1,1,1]}\n%y = Add (%a, %x)\noutput %y\n");
}

TEST_CASE("a convolution moves behind a residual that is made after it") {
  check_pass(passes::fuse_residual, kBlock + "%a = Conv2d (%x, %w)" + kPads + "%e = Exp (%x)\n%y = Add (%a, %e)\noutput %y\n",
             "%e = Exp (%x)\n%y = Conv2d \"a\" (%x, %w, _, %e) {pad=[1,1,1,1]}\noutput %y\n");
}

TEST_CASE("additions that are no residuals stay") {
  check_untouched(passes::fuse_residual,
                  kBlock + "%a = Conv2d (%x, %w) {pad=[1,1,1,1], lo=0}\n%y = Add (%a, %x)\noutput %y\n");  // clamped before
  check_untouched(passes::fuse_residual,
                  kBlock + "%a = Conv2d (%x, %w)" + kPads + "%y = Add (%a, %x)\noutput %y\noutput %a\n");  // read twice
  check_untouched(passes::fuse_residual, kBlock + "input %z : f32[N,1,1,4]\n%a = Conv2d (%x, %w)" + kPads +
                                             "%y = Add (%a, %z)\noutput %y\n");  // broadcast
  check_untouched(passes::fuse_residual, kBlock + "%a = Conv2d (%x, %w)" + kPads + "%y = Add (%a, %a)\noutput %y\n");
  check_untouched(passes::fuse_residual, kBlock + "%a = Conv2d (%x, %w)" + kPads + "%y = Sub (%x, %a)\noutput %y\n");
}

}  // namespace
}  // namespace lathe::test
