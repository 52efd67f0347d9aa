// Row pointers of a depthwise kernel: for the ISA files of this family only.
#pragma once
#include "kernels/dwconv/dwconv.h"

namespace lathe::kernels {
namespace {

// Input row under kernel row p of output row i, or the row of padding.
template <class T, class In>
inline __attribute__((always_inline)) const T* input_row(const DwConvInput<In>& in, uint32_t i, uint32_t p) {
  const int64_t r = in.row0 + static_cast<int64_t>(i) * in.stride_h + static_cast<int64_t>(p) * in.dilation_h;
  return r < 0 || r >= in.rows ? static_cast<const T*>(in.pad_row)
                               : static_cast<const T*>(in.a) + static_cast<size_t>(r) * in.row_step;
}

// Whether input column s is in the image.
template <class In>
inline __attribute__((always_inline)) bool has_column(const DwConvInput<In>& in, int32_t s) {
  return static_cast<uint32_t>(s) < in.cols;
}

// Output pixels [first, last) of a window of 3 columns, moving by `step` of its columns, for which the columns that enter the
// window are in the image. Others must look before they load.
struct Interior {
  uint32_t first, last;
};

template <class In>
inline Interior interior(const DwConvInput<In>& in, uint32_t cols, int32_t step) {
  const int32_t column = static_cast<int32_t>(in.dilation_w);
  const auto enters = [&](uint32_t x) {
    const int32_t right = in.col0 + (static_cast<int32_t>(x) * step + 2) * column;
    return has_column(in, right) && has_column(in, right - (step - 1) * column);
  };
  Interior r{0, cols};
  while (r.first < cols && !enters(r.first)) ++r.first;
  while (r.last > r.first && !enters(r.last - 1)) --r.last;
  return r;
}

}  // namespace
}  // namespace lathe::kernels
