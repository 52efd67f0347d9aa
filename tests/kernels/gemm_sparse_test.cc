#include "kernels/gemm_sparse/gemm_sparse.h"

#include <tuple>

#include "tests/kernels/gemm_problem.h"

namespace lathe::kernels {
namespace {

// How the blocks of a problem's weights are spread.
enum class Blocks { kRandom, kNone, kAll, kOneRow, kEmptyPanel };

// Calls fn(panel, segment, quad, channel, element of w) for every element.
template <class F>
void for_each_weight(const SparseShape& s, const F& fn) {
  for (uint32_t c = 0; c < s.n; ++c)
    for (uint32_t seg = 0; seg < s.segs; ++seg)
      for (uint32_t k = 0; k < s.seg_k; ++k)
        fn(c / kGemmPanel, seg, k / kGemmQuad, c, (static_cast<size_t>(c) * s.segs + seg) * s.seg_k + k);
}

void clear_blocks(const SparseShape& s, Blocks blocks, uint32_t seed, std::vector<int8_t>* w) {
  for_each_weight(s, [&](uint32_t panel, uint32_t seg, uint32_t quad, uint32_t c, size_t at) {
    const uint32_t hash = (panel * 7919u + seg * 104729u + quad * 1299709u + seed * 15485863u) * 2654435761u >> 16;
    const bool zero = blocks == Blocks::kRandom      ? hash % 100 < 25 + seed % 3 * 25
                      : blocks == Blocks::kNone      ? false
                      : blocks == Blocks::kAll       ? true
                      : blocks == Blocks::kOneRow    ? c != 5  // a block with one channel in it is kept
                                                     : panel == 0 || hash % 2 == 0;
    if (zero) (*w)[at] = 0;
  });
}

std::vector<int8_t> packed_form(const std::vector<int8_t>& w, const SparseShape& s) {
  std::vector<int8_t> packed(gemm_sparse_s8_packed_bytes(w.data(), s));
  gemm_sparse_s8_pack(w.data(), s, packed.data());
  return packed;
}

// An 8-bit problem with zero blocks, for the sparse kernels and for the dense reference.
struct SparseProblem : GemmS8Operands {
  std::vector<uint8_t> residual;
  Guarded<int8_t> sparse;
  GemmS8Args dense_args{};
  GemmSparseS8Args args{};

  // by_taps: the case's segments of a row are pieces of one packed segment.
  SparseProblem(const GemmCase& gemm_case, Storage s, uint32_t seed, Blocks blocks, bool by_taps, bool extreme)
      : GemmS8Operands(gemm_case, s, seed, extreme), residual(1 + layout.residual_elems() + 63), sparse(0) {
    fill_ints(rng, residual.data(), residual.size(), 0, 255);
    const SparseShape by_segments{c.n, c.packed_segs(), c.seg_k, 1};
    clear_blocks(by_segments, blocks, seed, &w_plain);
    gemm_s8_pack(w_plain.data(), c.n, c.packed_segs(), c.seg_k, w.data());
    const uint32_t cols = c.packed_seg_cols();
    const SparseShape shape = by_taps ? SparseShape{c.n, c.packed_seg_rows(), cols * c.seg_k, cols} : by_segments;
    const std::vector<int8_t> packed = packed_form(w_plain, shape);
    REQUIRE(gemm_sparse_s8_valid(packed.data(), packed.size(), shape));
    sparse = Guarded<int8_t>(packed.size());
    std::memcpy(sparse.data(), packed.data(), packed.size());
    const int32_t shift = storage_shift(storage);
    dense_args = {.geo = layout.geo,
                  .a = a_begin(),
                  .w = w_begin(),
                  .bias = bias_packed.data(),
                  .scale = scale.data(),
                  .y = nullptr,
                  .residual = c.residual ? residual.data() + 1 : nullptr,
                  .residual_scale = 0.37f,
                  .residual_zero = -7 + shift,
                  .zero_point = c.zero_point + shift,
                  .lo = c.lo + shift,
                  .hi = c.hi + shift};
    static_cast<GemmS8Args&>(args) = dense_args;
    args.w = sparse.data();
    args.geo.w_seg_col_step = 1;
    args.geo.w_seg_row_step = cols;
    args.first_piece = c.skip_rows * cols + c.skip_cols;
    args.seg_pieces = 1;
    args.pieces = shape.pieces();
    if (!by_taps) return;
    // Quads count from the packed segment, which starts skip_cols taps before the call's first one.
    const auto tap = static_cast<int32_t>(c.seg_k);
    args.a = static_cast<const uint8_t*>(args.a) - static_cast<ptrdiff_t>(c.skip_cols * c.seg_k);
    args.geo.a_seg_col_step -= tap;
  }
};

void check(const GemmCase& c, uint32_t seed, Blocks blocks = Blocks::kRandom, bool extreme = false) {
  for_each_kernel<GemmSparseS8Fn>(Family::kGemmSparseS8, [&](const Kernel& k, GemmSparseS8Fn fn, GemmSparseS8Fn) {
    const auto dense = reinterpret_cast<GemmS8Fn>(select(Family::kGemmS8, k.storage, kIsaScalar)->fn);
    for (const bool by_taps : {false, true}) {
      if (by_taps && c.seg_k % kGemmQuad != 0) continue;
      const SparseProblem p(c, k.storage, seed, blocks, by_taps, extreme);
      INFO(k.name << " " << c << " seed " << seed << " by taps " << by_taps);
      const auto want = run_guarded<uint8_t>(p.layout, p.dense_args, dense, 5);
      REQUIRE(run_guarded<uint8_t>(p.layout, p.args, fn, 5) == want);
    }
  });
}

}  // namespace

TEST_CASE("every block-sparse GEMM kernel equals the dense reference at tile edges") {
  uint32_t seed = 1;
  for (const uint32_t n : {1, 3, 8, 15, 16, 17, 24, 31, 32, 33, 48, 50, 64, 100}) {
    for (const uint32_t m : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 23, 24, 25, 31}) {
      const uint32_t seg_k[] = {1, 3, 4, 9, 16, 27, 64};
      check({.m = m,
             .n = n,
             .segs = 1 + seed % 3,
             .seg_k = seg_k[seed % 7],
             .residual = seed % 3 == 0,
             .zero_point = seed % 2 == 0 ? -128 : 3,
             .lo = seed % 5 == 0 ? -120 : -128},
            seed);
      ++seed;
    }
  }
}

TEST_CASE("every block-sparse GEMM kernel equals the dense reference for k of every length, and long ones") {
  for (uint32_t seg_k = 1; seg_k <= 40; ++seg_k) check({.m = 7, .n = 20, .segs = 1 + seg_k % 4, .seg_k = seg_k}, seg_k);
  for (const uint32_t m : {1u, 2u, 3u, 4u, 13u, 200u}) {
    for (const uint32_t seg_k : {509u, 1024u, 2304u})
      check({.m = m, .n = 40, .segs = 1, .seg_k = seg_k, .residual = true}, seg_k);
  }
}

TEST_CASE("every block-sparse GEMM kernel equals the dense reference with no block, all blocks, one channel, an empty panel") {
  for (const Blocks blocks : {Blocks::kNone, Blocks::kAll, Blocks::kOneRow, Blocks::kEmptyPanel}) {
    for (const uint32_t m : {1u, 3u, 9u, 25u}) {
      check({.m = m, .n = 33, .segs = 1, .seg_k = 68, .residual = m == 9}, m, blocks);
      check({.m = m, .n = 16, .segs = 3, .seg_k = 10, .rows = 2, .seg_rows = 2}, m, blocks);
    }
  }
}

TEST_CASE("every block-sparse GEMM kernel takes rows of pixels and of segments, some left out, forwards and backwards") {
  for (uint32_t seed = 0; seed < 240; ++seed) {
    const uint32_t rows[] = {1, 2, 3, 5, 7, 40}, cols[] = {1, 2, 5, 7, 6, 12, 13}, n[] = {3, 8, 16, 20, 24, 33, 56, 64, 100};
    const uint32_t seg_k[] = {4, 8, 12, 64, 5, 3};
    GemmCase c{.m = cols[seed % 7],
               .n = n[seed % 9],
               .segs = seed % 4,
               .seg_k = seg_k[seed % 6],
               .residual = seed % 3 == 0,
               .zero_point = seed % 2 == 0 ? -128 : 3,
               .a_stride = seed % 5 == 0 ? 2 : 0u,
               .rows = rows[seed % 6],
               .seg_rows = 1 + seed % 3,
               .backwards = seed % 3 == 1};
    if (c.segs == 0) c.seg_rows = 0, c.segs = 1, c.skip_rows = 1;
    if (c.seg_k % 4 == 0) c.skip_rows = 1, c.skip_cols = seed / 2 % 3;
    check(c, seed);
  }
}

TEST_CASE("block-sparse GEMM kernels are exact for extreme operands, every zero point and huge products") {
  for (const uint32_t n : {10, 16, 64}) check({.m = 9, .n = n, .segs = 2, .seg_k = 999}, n, Blocks::kNone, true);
  for (int z = -128; z <= 127; z += 5) {
    const GemmCase c{.m = 5, .n = 17, .segs = 1, .seg_k = 24, .residual = z % 2 == 0, .zero_point = z, .lo = z};
    check(c, static_cast<uint32_t>(z + 200));
  }
  for (const float scale : {0.32f, 0.7f, 1e6f, 1e12f, 1e-12f})
    check({.m = 7, .n = 33, .segs = 1, .seg_k = 36, .lo = -100, .hi = 101, .scale = scale}, 9);
}

TEST_CASE("a call may take any panels of block-sparse weights") {
  for_each_kernel<GemmSparseS8Fn>(Family::kGemmSparseS8, [&](const Kernel& k, GemmSparseS8Fn fn, GemmSparseS8Fn) {
    SparseProblem p({.m = 14, .n = 70, .segs = 1, .seg_k = 40}, k.storage, 3, Blocks::kRandom, false, false);
    const auto want = run_guarded<uint8_t>(p.layout, p.args, fn, 5);
    std::vector<uint8_t> y(want.size());
    p.args.y = y.data();
    for (const auto& [panel, n] : {std::pair{3u, 22u}, {0u, 16u}, {1u, 32u}}) {
      GemmSparseS8Args part = p.args;
      part.first_panel = panel, part.geo.n = n;
      part.bias += panel * kGemmPanel, part.scale += panel * kGemmPanel;
      part.y = y.data() + panel * kGemmPanel;
      fn(part);
    }
    for (uint32_t pixel = 0; pixel < 14; ++pixel)
      for (uint32_t c = 0; c < 70; ++c) REQUIRE(y[p.layout.y_at(pixel) + c] == want[p.layout.y_at(pixel) + c]);
  });
}

TEST_CASE("packing block-sparse weights keeps the blocks that are not zero, and is undone by unpacking") {
  for (const auto& [n, segs, seg_k, pieces] : {std::tuple{1u, 1u, 1u, 1u}, {17u, 3u, 5u, 1u}, {16u, 1u, 64u, 1u},
                                               {33u, 3u, 36u, 3u}, {20u, 5u, 40u, 5u}}) {
    for (const Blocks blocks : {Blocks::kRandom, Blocks::kNone, Blocks::kAll, Blocks::kEmptyPanel}) {
      const SparseShape s{n, segs, seg_k, pieces};
      std::mt19937 rng(n);
      std::vector<int8_t> w(static_cast<size_t>(n) * segs * seg_k), back(w.size(), 99);
      fill_ints(rng, w.data(), w.size(), 1, 127);
      clear_blocks(s, blocks, n, &w);
      const std::vector<int8_t> packed = packed_form(w, s);
      REQUIRE(gemm_sparse_s8_valid(packed.data(), packed.size(), s));
      gemm_sparse_s8_unpack(packed.data(), s, back.data());
      CHECK(w == back);
      if (blocks == Blocks::kNone) CHECK(gemm_sparse_s8_blocks(w.data(), s) == s.blocks());
      if (blocks == Blocks::kAll) CHECK(gemm_sparse_s8_blocks(w.data(), s) == 0);
      CHECK(packed.size() >= gemm_sparse_s8_blocks(w.data(), s) * kSparseBlock);
    }
  }
}

TEST_CASE("a damaged block-sparse form is not valid, whatever byte of its tables changed") {
  const SparseShape s{20, 3, 24, 3};
  std::mt19937 rng(4);
  std::vector<int8_t> w(20 * 72);
  fill_ints(rng, w.data(), w.size(), 1, 127);
  clear_blocks(s, Blocks::kRandom, 2, &w);
  const std::vector<int8_t> packed = packed_form(w, s);
  for (size_t bytes = 0; bytes < packed.size() + 128; ++bytes) {
    std::vector<int8_t> other = packed;
    other.resize(std::max(bytes, packed.size()));
    REQUIRE(gemm_sparse_s8_valid(other.data(), bytes, s) == (bytes == packed.size()));
  }
  REQUIRE_FALSE(gemm_sparse_s8_valid(packed.data(), packed.size(), SparseShape{36, 3, 24, 3}));
  REQUIRE_FALSE(gemm_sparse_s8_valid(packed.data(), packed.size(), SparseShape{20, 4, 24, 3}));
  // A quad may become another one of its piece that keeps the order; anything else is refused, and what is not must unpack.
  size_t refused = 0;
  for (size_t at = 0; at < packed.size(); ++at) {
    for (const int bit : {0, 1, 3, 7}) {
      std::vector<int8_t> other = packed;
      other[at] = static_cast<int8_t>(other[at] ^ (1 << bit));
      if (gemm_sparse_s8_valid(other.data(), other.size(), s)) {
        std::vector<int8_t> back(w.size());
        gemm_sparse_s8_unpack(other.data(), s, back.data());
      } else {
        ++refused;
      }
    }
  }
  CHECK(refused > 200);
  for (const size_t at : {0u, 4u, 64u, 68u, 100u}) {
    for (const int bit : {0, 6}) {
      std::vector<int8_t> other = packed;
      other[at] = static_cast<int8_t>(other[at] ^ (1 << bit));
      if (at != 100 || bit == 6) CHECK_FALSE(gemm_sparse_s8_valid(other.data(), other.size(), s));
    }
  }
}

}  // namespace lathe::kernels
