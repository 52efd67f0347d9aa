#include <doctest/doctest.h>

#include "graph/graph_run.h"
#include "graph/passes/passes.h"

namespace lathe::test {
namespace {

const std::string kOperands = "input %q : f32[N,5,3,4]\ninput %k : f32[N,6,3,4]\n";
const std::string kHeads = "%qh = Transpose (%q) {perm=[0,2,1,3]}\n%kh = Transpose (%k) {perm=[0,2,3,1]}\n";

TEST_CASE("transposes around a product become its permutations") {
  check_pass(passes::fold_matmul_transposes, kOperands + kHeads + "%s = MatMul (%qh, %kh)\noutput %s\n",
             "%s = MatMul (%q, %k) {a_perm=[0,2,1,3], b_perm=[0,2,3,1]}\noutput %s\n");
  check_pass(passes::fold_matmul_transposes,
             "input %a : f32[N,3,5,6]\ninput %v : f32[N,6,3,4]\n%vh = Transpose (%v) {perm=[0,2,1,3]}\n"
             "%o = MatMul (%a, %vh)\n%y = Transpose (%o) {perm=[0,2,1,3]}\noutput %y\n",
             "%y = MatMul \"o\" (%a, %v) {b_perm=[0,2,1,3], y_perm=[0,2,1,3]}\noutput %y\n");
}

TEST_CASE("permutations that a product has are composed with those around it") {
  check_pass(
      passes::fold_matmul_transposes,
      "input %a : f32[3,N,5,4]\ninput %b : f32[4,6]\n%t = Transpose (%a) {perm=[2,0,1,3]}\n%u = Transpose (%b) {perm=[1,0]}\n"
      "%p = MatMul (%t, %u) {a_perm=[1,2,0,3], b_perm=[1,0], y_perm=[1,0,2,3]}\n%y = Transpose (%p) {perm=[1,0,2,3]}\noutput "
      "%y\n",
      "%y = MatMul \"p\" (%a, %b)\noutput %y\n");
}

TEST_CASE("transposes that a product cannot do stay") {
  const auto untouched = [](const std::string& body) { check_untouched(passes::fold_matmul_transposes, body); };
  untouched(
      "input %a : f32[N,4,5]\ninput %b : f32[N,4,6]\n%t = Transpose (%a) {perm=[0,2,1]}\n%y = MatMul (%t, %b)\noutput %y\n");
  untouched(
      "input %a : f32[N,5,4]\ninput %b : f32[N,4,6]\n%p = MatMul (%a, %b)\n%y = Transpose (%p) {perm=[0,2,1]}\noutput %y\n");
  untouched("input %a : f32[N,5,4]\ninput %b : f32[N,4,6]\n%p = MatMul (%a, %b)\n%y = Transpose (%p) {perm=[1,0,2]}\n"
            "output %y\noutput %p\n");
}

TEST_CASE("constant factors around a product become its scale") {
  const std::string factors = "constant %two : f32[] = splat 2\nconstant %four : f32[1] = splat 4\n";
  const std::string operands = "input %a : f32[N,5,4]\ninput %b : f32[N,4,6]\n" + factors;
  check_pass(passes::fuse_scale, operands + "%p = MatMul (%a, %b)\n%y = Div (%p, %four)\noutput %y\n",
             "%y = MatMul \"p\" (%a, %b) {scale=0.25}\noutput %y\n");
  check_pass(
      passes::fuse_scale,
      operands + "%s = Mul (%two, %a)\n%t = Div (%b, %four)\n%p = MatMul (%s, %t) {scale=3}\n%y = Mul (%p, %two)\noutput %y\n",
      "%y = MatMul \"p\" (%a, %b) {scale=3}\noutput %y\n");
}

TEST_CASE("factors that a scale cannot be stay") {
  const std::string operands =
      "input %a : f32[N,5,4]\ninput %b : f32[N,4,6]\nconstant %two : f32[] = splat 2\nconstant %minus : f32[] = splat -2\n"
      "constant %row : f32[6] = splat 2\nconstant %deep : f32[1,1,1,1] = splat 2\n%p = MatMul (%a, %b)\n";
  const auto untouched = [&](const std::string& rest) { check_untouched(passes::fuse_scale, operands + rest); };
  untouched("%y = Mul (%p, %minus)\noutput %y\n");
  untouched("%y = Div (%two, %p)\noutput %y\n");
  untouched("%y = Mul (%p, %row)\noutput %y\n");
  untouched("%y = Mul (%p, %deep)\noutput %y\n");
  untouched("%y = Mul (%p, %two) {lo=0}\noutput %y\n");
  untouched("%y = Mul (%p, %two)\noutput %y\noutput %p\n");
  check_untouched(passes::fuse_scale, "input %a : f32[N,5,4]\ninput %b : f32[N,4,6]\nconstant %two : f32[] = splat 2\n"
                                      "%p = MatMul (%a, %b) {lo=0}\n%y = Mul (%p, %two)\noutput %y\n");
}

}  // namespace
}  // namespace lathe::test
