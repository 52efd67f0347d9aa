// Programs that contradict themselves: prepare refuses them, since run() trusts what prepare left.
#include <doctest/doctest.h>

#include "tests/conv/conv_problem.h"

namespace lathe::test {
namespace {

struct Bad {
  std::vector<TestDim> x = {1, 5, 5, 3}, w = {4, 3, 3, 3}, y = {1, 5, 5, 4};
  Conv2dAttrs attrs;
  Layout layout = Layout::kGemmF32;
  DType dtype = DType::kF32;
  int bytes_off = 0;
  bool constant = true;
};

Code prepare(const Bad& bad) {
  const ConvPacking p = conv_packing(ConvCase{}.attrs(), 4, 3, 3, 3);
  ProgramBuilder b;
  const uint32_t x = b.input(bad.dtype, bad.x), y = b.output(bad.dtype, bad.y);
  const std::vector<float> packed(p.packed_f32_elems());
  const uint32_t w = bad.constant ? b.constant_bytes(DType::kF32, bad.w, packed.data(),
                                                     packed.size() * 4 - static_cast<size_t>(bad.bytes_off), bad.layout)
                                  : b.input(DType::kF32, bad.w);
  b.step(Op::kConv2d, bad.attrs, {x, w}, {y});
  const BuiltProgram built = b.build();
  Program program;
  if (const Status s = built.open(&program); !s.ok()) return s.code;
  std::vector<Shape> shapes;
  const auto shape_of = [](const std::vector<TestDim>& d) {
    Shape s;
    for (const TestDim& v : d) s.dims[s.rank++] = v.value;
    return s;
  };
  shapes.push_back(shape_of(bad.x));
  if (!bad.constant) shapes.push_back(shape_of(bad.w));
  CoreRun core;
  return core.bind(program, shapes, bind_options({kernels::kIsaScalar, 1})).code;
}

Bad good() {
  Bad b;
  b.attrs = ConvCase{}.attrs();
  return b;
}

// A quantized 3x3 convolution of 16 to 20 channels whose weights have the block-sparse layout; `change` edits their bytes.
template <class F>
Code prepare_sparse(const F& change, int groups = 1) {
  const ConvCase c{.ic = 16, .oc = 20, .groups = groups};
  const ConvPacking p = conv_packing(c.attrs(), 20, 3, 3, static_cast<uint32_t>(16 / groups));
  std::vector<int8_t> w(p.weight_elems(), 0);
  for (size_t i = 0; i < w.size(); i += 24) w[i] = 3;
  const kernels::SparseShape shape = p.sparse_shape();
  std::vector<int8_t> packed(kernels::gemm_sparse_s8_packed_bytes(w.data(), shape));
  kernels::gemm_sparse_s8_pack(w.data(), shape, packed.data());
  change(packed);
  ProgramBuilder b;
  const QuantParams quant{0.5f, 3};
  const uint32_t x = b.input(DType::kS8, {1, 5, 5, 16}, quant), y = b.output(DType::kS8, {1, 5, 5, 20}, quant);
  const std::vector<int32_t> bias(p.vector_elems());
  const std::vector<float> m(p.vector_elems(), 0.1f);
  b.step(Op::kConv2d, c.attrs(),
         {x, b.constant(DType::kS8, {20, 3, 3, 16 / groups}, packed, Layout::kGemmSparseS8),
          b.constant(DType::kS32, {20}, bias, Layout::kPadded16), b.constant(DType::kS32, {20}, bias, Layout::kPadded16),
          b.constant(DType::kF32, {20}, m, Layout::kPadded16)},
         {y});
  const BuiltProgram built = b.build();
  Program program;
  if (const Status s = built.open(&program); !s.ok()) return s.code;
  CoreRun core;
  return core.bind(program, {shape4(1, 5, 5, 16)}, bind_options({kernels::kIsaScalar, 1})).code;
}

}  // namespace

TEST_CASE("block-sparse weights are prepared if every block lies in its bounds, and refused if not") {
  using Packed = std::vector<int8_t>;
  CHECK(prepare_sparse([](Packed&) {}) == Code::kOk);
  CHECK(prepare_sparse([](Packed&) {}, 2) == Code::kUnsupported);
  CHECK(prepare_sparse([](Packed& w) { w[0] = 9; }) == Code::kCorrupt);         // where panel 0 starts
  CHECK(prepare_sparse([](Packed& w) { w[64 + 5] = 1; }) == Code::kCorrupt);    // first block of piece 1
  CHECK(prepare_sparse([](Packed& w) { w[64 + 40] = 99; }) == Code::kCorrupt);  // quad of the first block
  CHECK(prepare_sparse([](Packed& w) { w.resize(w.size() - 64); }) == Code::kCorrupt);
  CHECK(prepare_sparse([](Packed& w) { w.clear(); }) == Code::kCorrupt);
}

TEST_CASE("a consistent convolution is prepared") { CHECK(prepare(good()) == Code::kOk); }

TEST_CASE("a convolution whose shapes contradict each other is refused") {
  Bad b = good();
  SUBCASE("output too large") { b.y = {1, 6, 5, 4}; }
  SUBCASE("output too small") { b.y = {1, 5, 4, 4}; }
  SUBCASE("output channels") { b.y = {1, 5, 5, 5}; }
  SUBCASE("batch") { b.y = {2, 5, 5, 4}; }
  SUBCASE("input channels") { b.x = {1, 5, 5, 4}; }
  SUBCASE("rank of x") { b.x = {5, 5, 3}; }
  SUBCASE("rank of w") { b.w = {4, 27}; }
  SUBCASE("groups do not divide") { b.attrs.groups = 3; }
  SUBCASE("weights stored short") { b.bytes_off = 4; }
  CHECK(prepare(b) != Code::kOk);
}

TEST_CASE("a convolution with impossible attributes is refused") {
  Bad b = good();
  SUBCASE("stride 0") { b.attrs.stride[1] = 0; }
  SUBCASE("dilation 0") { b.attrs.dilation[0] = 0; }
  SUBCASE("negative pad") { b.attrs.pad[2] = -1; }
  SUBCASE("groups 0") { b.attrs.groups = 0; }
  SUBCASE("huge pad") { b.attrs.pad[0] = 0x7fffffff; }
  CHECK(prepare(b) != Code::kOk);
}

TEST_CASE("a convolution that this version cannot run is unsupported") {
  Bad b = good();
  SUBCASE("plain weights") { b.layout = Layout::kPlain; }
  SUBCASE("weights that are computed") { b.constant = false; }
  SUBCASE("another element type") { b.dtype = DType::kF16; }
  CHECK(prepare(b) == Code::kUnsupported);
}

}  // namespace lathe::test
