// Segment GEMM on block-sparse 8-bit weights: gemm.h's GemmS8 for weights many of whose blocks of 4 k x 16 channels are all zero.
//
//   y[r][c] = epilogue(bias[c] + sum over segments s, blocks b of c's panel in s, i < 4 of
//                                    a[at(r) + seg_a(s) + 4 quad(b) + i] * b[c][i])
//
// A block is what one vpdpbusd multiplies: a quad of k of the 16 channels of a panel. Only blocks with an element other than 0
// are stored and multiplied, so time and memory follow their number. Sums are the dense kernel's to the bit. A tile is one panel
// wide, because every panel has its own blocks, and tall instead. Whether that beats the dense kernel is a matter of shape and
// density: gemm_sparse_s8_pays(), which lowering asks. Everything that gemm.h says of operands holds, but for the weights.
//
// A packed panel is found by its number, and in it pieces: runs of quads that a call may take or leave, all of one length. With
// `pieces_per_seg` 1 that is a segment; a kernel row of a convolution has one per tap, so that taps in the padding can be left
// out. Bytes, from the start, which is on 64 bytes:
//   u32 panel_at[ceil(n / 16)]           where each panel starts, in units of 64 bytes; zeros up to 64 bytes
//   panel:  u32 first[segs * pieces_per_seg + 1]   number of the first block of every piece, then of all blocks
//           u16 quad[blocks]             which quad of its segment a block is: ascending within a piece; zeros up to 64 bytes
//           s8 block[blocks][16][4]      as in a dense panel
// Panels follow one another without a gap. Padding k and channels are zeros.
#pragma once
#include "kernels/gemm/gemm.h"

namespace lathe::kernels {

inline constexpr uint32_t kSparseBlock = kGemmPanel * kGemmQuad;  // bytes
inline constexpr uint32_t kSparseMostQuads = 1u << 16;            // of a segment

// Weights as gemm_s8_pack() takes them, n x segs x seg_k. Requires: pieces_per_seg divides the segment's quads.
struct SparseShape {
  uint32_t n, segs, seg_k, pieces_per_seg;

  constexpr uint32_t panels() const { return (n + kGemmPanel - 1) / kGemmPanel; }
  constexpr uint32_t quads() const { return (seg_k + kGemmQuad - 1) / kGemmQuad; }  // of a segment
  constexpr uint32_t pieces() const { return segs * pieces_per_seg; }               // of a panel
  constexpr uint32_t piece_quads() const { return quads() / pieces_per_seg; }
  constexpr uint64_t blocks() const { return static_cast<uint64_t>(panels()) * segs * quads(); }
};

// Blocks of w[n][segs * seg_k] that are not all zero.
uint64_t gemm_sparse_s8_blocks(const int8_t* w, const SparseShape& shape);
// Bytes of the packed form of w, and that form. Requires: they and quads() fit (gemm_sparse_s8_fits).
uint64_t gemm_sparse_s8_packed_bytes(const int8_t* w, const SparseShape& shape);
void gemm_sparse_s8_pack(const int8_t* w, const SparseShape& shape, int8_t* packed);
// Whether bytes from outside are a packed form: every table within `bytes`, every block within its piece. Kernels and unpack
// require it.
bool gemm_sparse_s8_valid(const int8_t* packed, uint64_t bytes, const SparseShape& shape);
// The inverse of packing: w[n][segs * seg_k]. Requires: valid.
void gemm_sparse_s8_unpack(const int8_t* packed, const SparseShape& shape, int8_t* w);

// Whether `blocks` of shape.blocks() are few enough for the sparse kernels to be faster than the dense ones over `pixels` rows,
// on every instruction set whose kernels were measured. A pure rule; where its numbers come from: select.cc.
bool gemm_sparse_s8_pays(const SparseShape& shape, uint64_t pixels, uint64_t blocks);

// A panel as kernels read it.
struct SparsePanel {
  const uint32_t* first;  // by piece
  const uint16_t* quad;   // by block
  const int8_t* blocks;
};
inline SparsePanel sparse_panel(const int8_t* packed, uint32_t panel, uint32_t pieces) {
  const int8_t* at = packed + static_cast<size_t>(reinterpret_cast<const uint32_t*>(packed)[panel]) * 64;
  const auto* first = reinterpret_cast<const uint32_t*>(at);
  const size_t tables = (pieces + 1) * sizeof(uint32_t) + first[pieces] * sizeof(uint16_t);
  return {first, reinterpret_cast<const uint16_t*>(first + pieces + 1), at + (tables + 63) / 64 * 64};
}

// `w`: the packed form's start. Segment (i, j) of the call takes seg_pieces pieces of a panel from number
// first_piece + i * w_seg_row_step + j * w_seg_col_step on; a block of them multiplies what lies 4 * quad from where the pixel's
// segment starts, quads counted from the start of the packed segment. w_panel_step and seg_k are not used.
struct GemmSparseS8Args : GemmS8Args {
  uint32_t first_panel;  // of the call's channels
  uint32_t first_piece, seg_pieces;
  uint32_t pieces;  // of a panel
};
using GemmSparseS8Fn = void (*)(const GemmSparseS8Args&);

}  // namespace lathe::kernels
