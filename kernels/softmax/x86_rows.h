// 8-bit softmax by a table in registers, for the x86 files of this family. Included by them only, after their Table.
//
// Table, one per ISA:
//   kChunk, Vector: so many bytes, and the register of them; Terms: the terms of a chunk, each less 2^15 (PMADDWD is signed), in
//   two registers, with a constructor that loads and a store (copies of the struct itself GCC makes by way of memory)
//   Whole{}, Part(n): a whole chunk or its first n < kChunk bytes; load(p, other) has `other` past the end, store(p, v)
//   terms(x, top, part): terms of top - x; absent ones are 0
//   add(sums, terms), total(sums): sums modulo 2^32 of the terms less 2^15
//   lowest<kUnsigned>(), max<kUnsigned>(a, b), broadcast_largest<kUnsigned>(v)
//   scaled<kUnsigned>(terms, scale): rne(t * scale) less 128, in the storage, for t * scale <= 256
#pragma once
#include "kernels/softmax/softmax.h"

namespace lathe::kernels {
namespace {

template <class Body> [[gnu::always_inline]] inline void for_each_chunk(uint32_t n, const Body& body) {
  uint32_t i = 0;
  for (; i + Table::kChunk <= n; i += Table::kChunk) body(i, Table::Whole{});
  if (i < n) body(i, Table::Part(n - i));
}

// Terms that fit are kept, so that they are looked up once.
inline constexpr uint32_t kKeptChunks = 2048 / Table::kChunk, kTermsPerChunk = 2;
constexpr uint32_t chunks_of(uint32_t n) { return (n + Table::kChunk - 1) / Table::kChunk; }

template <bool kUnsigned, bool kKeep> void softmax_rows_8(const SoftmaxS8Args& g, uint32_t at_once) {
  using Vector = Table::Vector;
  const Table table(g.table);
  const uint32_t n = g.n, chunks = chunks_of(n);
  const Vector lowest = Table::lowest<kUnsigned>();
  Vector kept[kKeptChunks * kTermsPerChunk];
  Vector top[kRows];
  float scale[kRows];
  for (uint32_t first = 0; first < g.rows; first += at_once) {
    const uint32_t rows = g.rows - first < at_once ? g.rows - first : at_once;
    const uint8_t* x = static_cast<const uint8_t*>(g.x) + first * n;
    uint8_t* y = static_cast<uint8_t*>(g.y) + first * n;
    for (uint32_t r = 0; r < rows; ++r) {
      Vector highest = lowest;
      for_each_chunk(n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
        highest = Table::max<kUnsigned>(highest, part.load(x + r * n + i, lowest));
      });
      top[r] = Table::broadcast_largest<kUnsigned>(highest);
    }
    for (uint32_t r = 0; r < rows; ++r) {
      Table::Sums sums{};
      for_each_chunk(n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
        const Table::Terms t = table.terms(part.load(x + r * n + i, top[r]), top[r], part);
        Table::add(sums, t);
        if constexpr (kKeep) t.store(kept + (r * chunks + i / Table::kChunk) * kTermsPerChunk);
      });
      const uint32_t sum = Table::total(sums) + (chunks * Table::kChunk << 15);
      scale[r] = 256.0f / static_cast<float>(sum);
    }
    for (uint32_t r = 0; r < rows; ++r) {
      for_each_chunk(n, [&](uint32_t i, auto part) __attribute__((always_inline)) {
        const Table::Terms t = kKeep ? Table::Terms(kept + (r * chunks + i / Table::kChunk) * kTermsPerChunk)
                                     : table.terms(part.load(x + r * n + i, top[r]), top[r], part);
        part.store(y + r * n + i, Table::scaled<kUnsigned>(t, scale[r]));
      });
    }
  }
}

template <bool kUnsigned> void softmax_table_8(const SoftmaxS8Args& g) {
  if (g.n == 0) return;
  const uint32_t fit = kKeptChunks / chunks_of(g.n);
  if (fit == 0) return softmax_rows_8<kUnsigned, false>(g, 1);
  softmax_rows_8<kUnsigned, true>(g, fit < kRows ? fit : kRows);
}

}  // namespace
}  // namespace lathe::kernels
