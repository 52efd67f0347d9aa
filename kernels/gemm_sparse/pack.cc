#include "kernels/gemm_sparse/gemm_sparse.h"

namespace lathe::kernels {
namespace {

constexpr uint64_t round_up64(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

uint64_t tables_bytes(const SparseShape& s, uint64_t blocks) {
  return round_up64((s.pieces() + uint64_t{1}) * sizeof(uint32_t) + blocks * sizeof(uint16_t));
}
uint64_t directory_bytes(const SparseShape& s) { return round_up64(uint64_t{s.panels()} * sizeof(uint32_t)); }

// Calls fn(channel in the panel, k in the quad, element of w) for the elements of a block that exist.
template <class F>
void for_each_element(const SparseShape& s, uint32_t panel, uint32_t seg, uint32_t quad, const F& fn) {
  const uint32_t c0 = panel * kGemmPanel, k0 = quad * kGemmQuad;
  const uint32_t channels = s.n - c0 < kGemmPanel ? s.n - c0 : kGemmPanel;
  const uint32_t k = s.seg_k - k0 < kGemmQuad ? s.seg_k - k0 : kGemmQuad;
  for (uint32_t c = 0; c < channels; ++c) {
    for (uint32_t i = 0; i < k; ++i) fn(c, i, (static_cast<size_t>(c0 + c) * s.segs + seg) * s.seg_k + k0 + i);
  }
}

bool is_zero(const int8_t* w, const SparseShape& s, uint32_t panel, uint32_t seg, uint32_t quad) {
  int any = 0;
  for_each_element(s, panel, seg, quad, [&](uint32_t, uint32_t, size_t at) { any |= w[at]; });
  return any == 0;
}

// Calls fn(segment, quad, piece) for the panel's blocks that are not all zero, in order.
template <class F>
void for_each_block(const int8_t* w, const SparseShape& s, uint32_t panel, const F& fn) {
  for (uint32_t seg = 0; seg < s.segs; ++seg) {
    for (uint32_t quad = 0; quad < s.quads(); ++quad)
      if (!is_zero(w, s, panel, seg, quad)) fn(seg, quad, seg * s.pieces_per_seg + quad / s.piece_quads());
  }
}

uint64_t panel_blocks(const int8_t* w, const SparseShape& s, uint32_t panel) {
  uint64_t n = 0;
  for_each_block(w, s, panel, [&](uint32_t, uint32_t, uint32_t) { ++n; });
  return n;
}

}  // namespace

uint64_t gemm_sparse_s8_blocks(const int8_t* w, const SparseShape& s) {
  uint64_t n = 0;
  for (uint32_t p = 0; p < s.panels(); ++p) n += panel_blocks(w, s, p);
  return n;
}

uint64_t gemm_sparse_s8_packed_bytes(const int8_t* w, const SparseShape& s) {
  uint64_t bytes = directory_bytes(s);
  for (uint32_t p = 0; p < s.panels(); ++p) {
    const uint64_t blocks = panel_blocks(w, s, p);
    bytes += tables_bytes(s, blocks) + blocks * kSparseBlock;
  }
  return bytes;
}

void gemm_sparse_s8_pack(const int8_t* w, const SparseShape& s, int8_t* packed) {
  __builtin_memset(packed, 0, static_cast<size_t>(gemm_sparse_s8_packed_bytes(w, s)));
  uint64_t at = directory_bytes(s);
  for (uint32_t p = 0; p < s.panels(); ++p) {
    reinterpret_cast<uint32_t*>(packed)[p] = static_cast<uint32_t>(at / 64);
    const uint64_t blocks = panel_blocks(w, s, p);
    auto* first = reinterpret_cast<uint32_t*>(packed + at);
    auto* quads = reinterpret_cast<uint16_t*>(first + s.pieces() + 1);
    int8_t* block = packed + at + tables_bytes(s, blocks);
    for_each_block(w, s, p, [&](uint32_t seg, uint32_t quad, uint32_t piece) {
      ++first[piece + 1];
      *quads++ = static_cast<uint16_t>(quad);
      for_each_element(s, p, seg, quad, [&](uint32_t c, uint32_t i, size_t from) { block[c * kGemmQuad + i] = w[from]; });
      block += kSparseBlock;
    });
    for (uint32_t piece = 0; piece < s.pieces(); ++piece) first[piece + 1] += first[piece];
    at += tables_bytes(s, blocks) + blocks * kSparseBlock;
  }
}

bool gemm_sparse_s8_valid(const int8_t* packed, uint64_t bytes, const SparseShape& s) {
  uint64_t at = directory_bytes(s);
  if (at > bytes || s.quads() > kSparseMostQuads) return false;
  for (uint32_t p = 0; p < s.panels(); ++p) {
    if (reinterpret_cast<const uint32_t*>(packed)[p] != at / 64 || tables_bytes(s, 0) > bytes - at) return false;
    const auto* first = reinterpret_cast<const uint32_t*>(packed + at);
    const uint64_t blocks = first[s.pieces()], size = tables_bytes(s, blocks) + blocks * kSparseBlock;
    if (first[0] != 0 || size > bytes - at) return false;
    const auto* quad = reinterpret_cast<const uint16_t*>(first + s.pieces() + 1);
    for (uint32_t piece = 0; piece < s.pieces(); ++piece) {
      if (first[piece + 1] < first[piece] || first[piece + 1] > blocks) return false;
      uint32_t least = piece % s.pieces_per_seg * s.piece_quads();
      const uint32_t end = least + s.piece_quads();
      for (uint32_t b = first[piece]; b < first[piece + 1]; ++b) {
        if (quad[b] < least || quad[b] >= end) return false;
        least = quad[b] + 1u;
      }
    }
    at += size;
  }
  return at == bytes;
}

void gemm_sparse_s8_unpack(const int8_t* packed, const SparseShape& s, int8_t* w) {
  __builtin_memset(w, 0, static_cast<size_t>(s.n) * s.segs * s.seg_k);
  for (uint32_t p = 0; p < s.panels(); ++p) {
    const SparsePanel panel = sparse_panel(packed, p, s.pieces());
    for (uint32_t piece = 0; piece < s.pieces(); ++piece) {
      for (uint32_t b = panel.first[piece]; b < panel.first[piece + 1]; ++b) {
        const int8_t* block = panel.blocks + static_cast<size_t>(b) * kSparseBlock;
        for_each_element(s, p, piece / s.pieces_per_seg, panel.quad[b],
                         [&](uint32_t c, uint32_t i, size_t to) { w[to] = block[c * kGemmQuad + i]; });
      }
    }
  }
}

}  // namespace lathe::kernels
