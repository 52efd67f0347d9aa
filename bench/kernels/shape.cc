#include "bench/kernels/shape.h"

#include <charconv>

namespace lathe::bench {
namespace {

const BenchShape kShapes[] = {
#define LATHE_BENCH_GEMM(m_, n_, k_) {.kind = ShapeKind::kGemm, .m = m_, .n = n_, .k = k_},
#define LATHE_BENCH_CONV(h_, w_, c_, oc_, kernel_, stride_, pad_, groups_) \
  {.kind = groups_ == 1 ? ShapeKind::kConv : ShapeKind::kDepthwise,        \
   .h = h_,                                                                \
   .w = w_,                                                                \
   .c = c_,                                                                \
   .oc = oc_,                                                              \
   .kernel = kernel_,                                                      \
   .stride = stride_,                                                      \
   .pad = pad_},
#define LATHE_BENCH_WINDOW(h_, w_, c_, kernel_, stride_, pad_) \
  {.kind = ShapeKind::kWindow, .h = h_, .w = w_, .c = c_, .oc = c_, .kernel = kernel_, .stride = stride_, .pad = pad_},
#define LATHE_BENCH_ROWS(rows_, n_) {.kind = ShapeKind::kRows, .m = rows_, .n = n_},
#include "bench/kernels/shapes.inc"
};

// "3x4x5" or "3x4x5:6:7" as its numbers; empty if the text has another form or a number is 0.
std::vector<uint32_t> numbers(const std::string& text, const char* separators) {
  std::vector<uint32_t> out;
  const char *at = text.data(), *end = at + text.size();
  for (;;) {
    uint32_t v = 0;
    const auto [next, error] = std::from_chars(at, end, v);
    if (error != std::errc() || v == 0) return {};
    out.push_back(v);
    if (next == end) return out;
    if (*separators == 0 || *next != *separators++) return {};
    at = next + 1;
  }
}

constexpr uint32_t kMaxKernel = 31;

std::string image_text(const BenchShape& s) {
  return std::to_string(s.h) + "x" + std::to_string(s.w) + "x" + std::to_string(s.c);
}

double multiply_adds(const BenchShape& s) {
  if (s.kind == ShapeKind::kGemm) return static_cast<double>(s.m) * s.n * s.k;
  const double per_pixel = static_cast<double>(s.kernel) * s.kernel * s.c * (s.kind == ShapeKind::kConv ? s.oc : 1);
  return static_cast<double>(s.oh()) * s.ow() * per_pixel;
}

}  // namespace

std::string BenchShape::text() const {
  const std::string tail = ":" + std::to_string(kernel) + ":" + std::to_string(stride);
  const std::string sparse = zeros == 0 ? "" : "@" + std::to_string(zeros);
  switch (kind) {
    case ShapeKind::kGemm:
      return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + sparse;
    case ShapeKind::kRows:
      return std::to_string(m) + "x" + std::to_string(n);
    case ShapeKind::kConv:
      return image_text(*this) + ":" + std::to_string(oc) + tail + sparse;
    case ShapeKind::kDepthwise:
    case ShapeKind::kWindow:
      return image_text(*this) + tail;
  }
  return {};
}

std::vector<BenchShape> listed_shapes(ShapeKind kind) {
  std::vector<BenchShape> out;
  for (const BenchShape& s : kShapes)
    if (s.kind == kind) out.push_back(s);
  return out;
}

Result<BenchShape> parse_shape(ShapeKind kind, const std::string& text) {
  BenchShape s{.kind = kind};
  const auto bad = [&](const char* form) { return fail(Code::kInvalidArgument, "'" + text + "' is not of the form " + form); };
  const auto at = kind == ShapeKind::kDepthwise ? std::string::npos : text.find('@');
  if (at != std::string::npos) {
    const auto zeros = numbers(text.substr(at + 1), "");
    if (zeros.size() != 1 || zeros[0] > 99) return bad("SHAPE@ZEROS, with a percentage from 1 to 99");
    LATHE_TRY(s, parse_shape(kind, text.substr(0, at)));
    s.zeros = zeros[0];
    return s;
  }
  if (kind == ShapeKind::kGemm) {
    const auto v = numbers(text, "xx");
    if (v.size() != 3) return bad("MxNxK");
    s.m = v[0], s.n = v[1], s.k = v[2];
  } else {
    const bool conv = kind == ShapeKind::kConv;
    const auto v = numbers(text, conv ? "xx:::" : "xx::");
    if (v.size() != (conv ? 6u : 5u)) return bad(conv ? "HxWxC:OC:KERNEL:STRIDE" : "HxWxC:KERNEL:STRIDE");
    s.h = v[0], s.w = v[1], s.c = v[2], s.oc = conv ? v[3] : v[2];
    s.kernel = v[v.size() - 2], s.stride = v[v.size() - 1], s.pad = s.kernel / 2;
    if (s.kernel > kMaxKernel)
      return fail(Code::kInvalidArgument, "'" + text + "': a kernel of " + std::to_string(s.kernel) + " is too large");
  }
  if (multiply_adds(s) > 0x1p31) return fail(Code::kInvalidArgument, "'" + text + "' is more than 2^31 multiply-adds");
  return s;
}

}  // namespace lathe::bench
