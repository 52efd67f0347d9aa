// A convolution or fully connected layer as a one-step program, with an independent answer: plain loops over the definition, in
// 64-bit integers and double, that share nothing with the library but the packing of the weights.
#pragma once
#include <cmath>
#include <ostream>
#include <random>
#include <stdexcept>
#include <vector>

#include "runtime/exec/conv_geometry.h"
#include "tests/kernels/under_test.h"
#include "tests/runtime/core_run.h"

namespace lathe::test {

struct ConvCase {
  int n = 1, h = 5, w = 5, ic = 3, oc = 4, kh = 3, kw = 3;
  int stride_h = 1, stride_w = 1, dil_h = 1, dil_w = 1;
  int top = 1, left = 1, bottom = 1, right = 1;
  int groups = 1;
  bool bias = true, residual = false;
  float lo = -INFINITY, hi = INFINITY;
  int x_zero = -5, y_zero = 9;

  int oh() const { return (h + top + bottom - ((kh - 1) * dil_h + 1)) / stride_h + 1; }
  int ow() const { return (w + left + right - ((kw - 1) * dil_w + 1)) / stride_w + 1; }
  Conv2dAttrs attrs() const {
    Conv2dAttrs a;
    a.stride[0] = stride_h, a.stride[1] = stride_w, a.dilation[0] = dil_h, a.dilation[1] = dil_w;
    a.pad[0] = top, a.pad[1] = left, a.pad[2] = bottom, a.pad[3] = right;
    a.groups = groups, a.lo = lo, a.hi = hi;
    return a;
  }
};

inline std::ostream& operator<<(std::ostream& o, const ConvCase& c) {
  return o << "x " << c.n << "x" << c.h << "x" << c.w << "x" << c.ic << " oc " << c.oc << " k " << c.kh << "x" << c.kw
           << " stride " << c.stride_h << "," << c.stride_w << " dilation " << c.dil_h << "," << c.dil_w << " pad " << c.top
           << "," << c.left << "," << c.bottom << "," << c.right << " groups " << c.groups << " residual " << c.residual;
}

// The two entries under test, alone in an exec table.
inline const ExecEntry* conv_table() {
  static const ExecEntry table[] = {{prepare_Conv2d, run_Conv2d}, {prepare_FullyConnected, run_FullyConnected}};
  return table;
}
inline uint32_t conv_index(uint16_t op) {
  return op == static_cast<uint16_t>(Op::kConv2d) ? 0 : op == static_cast<uint16_t>(Op::kFullyConnected) ? 1 : kNoTensor;
}

// Runs tasks last first, with slots in turn: results must not depend on either.
inline void run_backwards(void* team, uint32_t n, void (*fn)(void*, uint32_t, uint32_t), void* arg) {
  const uint32_t threads = *static_cast<uint32_t*>(team);
  for (uint32_t i = n; i-- > 0;) fn(arg, i, i % threads);
}

template <class T>
std::vector<T> random_vector(std::mt19937& rng, size_t n, double lo, double hi) {
  std::uniform_real_distribution<double> d(lo, hi);
  std::vector<T> v(n);
  for (auto& e : v) e = static_cast<T>(std::is_integral_v<T> ? std::floor(d(rng)) : d(rng));
  return v;
}

template <class T>
std::vector<T> padded(const ConvPacking& p, const std::vector<T>& v) {
  std::vector<T> out(p.vector_elems());
  p.pad_vector(v.data(), out.data());
  return out;
}

// Calls fn(output index, input index or -1 for padding, weight index) for every multiply-add.
template <class F>
void for_each_product(const ConvCase& c, const F& fn) {
  const int icg = c.ic / c.groups, ocg = c.oc / c.groups;
  for (int n = 0, out = 0; n < c.n; ++n)
    for (int y = 0; y < c.oh(); ++y)
      for (int x = 0; x < c.ow(); ++x)
        for (int o = 0; o < c.oc; ++o, ++out)
          for (int p = 0; p < c.kh; ++p)
            for (int q = 0; q < c.kw; ++q)
              for (int i = 0; i < icg; ++i) {
                const int iy = y * c.stride_h - c.top + p * c.dil_h, ix = x * c.stride_w - c.left + q * c.dil_w;
                const bool inside = iy >= 0 && iy < c.h && ix >= 0 && ix < c.w;
                fn(out, inside ? ((n * c.h + iy) * c.w + ix) * c.ic + o / ocg * icg + i : -1,
                   ((o * c.kh + p) * c.kw + q) * icg + i);
              }
}

struct Run {
  kernels::IsaSet isa;
  uint32_t threads;
};

// Every ISA level of this architecture that can run here, on 1 and 3 threads.
inline std::vector<Run> all_runs() {
  std::vector<Run> runs;
  for (const auto& level : kernels::kIsaLevels) {
    if (!kernels::covers(kernels::runnable_isa(), level.set)) continue;
    for (const uint32_t threads : {1u, 3u}) runs.push_back({level.set, threads});
  }
  return runs;
}

inline BindOptions bind_options(const Run& run) {
  BindOptions o;
  o.isa = run.isa;
  o.storage = storage_for(run.isa);
  o.threads = run.threads;
  o.table = conv_table();
  o.index = conv_index;
  return o;
}

// A problem bound for one way to run it; outputs have elements of type T. Throws if it cannot be bound: the cases are all valid.
template <class T>
class Bound {
 public:
  template <class Problem>
  Bound(const Problem& problem, const Run& run) : threads_(run.threads), inputs_(problem.inputs()), y_(problem.out_elems() + 64) {
    if (!problem.built().open(&program_).ok() || !core_.bind(program_, problem.input_shapes(), bind_options(run)).ok())
      throw std::runtime_error("not bound");
  }
  void run() { core_.run(inputs_, {y_.data()}, nullptr, {threads_ == 1 ? nullptr : run_backwards, &threads_, threads_}); }
  const std::vector<T>& output() const { return y_; }

 private:
  uint32_t threads_;
  std::vector<const void*> inputs_;
  std::vector<T> y_;
  Program program_;
  CoreRun core_;
};

template <class T, class Problem>
std::vector<T> execute(const Problem& problem, const Run& run) {
  Bound<T> bound(problem, run);
  bound.run();
  std::vector<T> y = bound.output();
  y.resize(problem.out_elems());
  return y;
}

inline Shape shape4(int a, int b, int c, int d) { return {{a, b, c, d}, 4}; }

// The first image of a batch is that of the same problem with one image: data is drawn in that order.
class QuantizedConv {
 public:
  // sparse: half of the blocks of weights are zero, and they are packed without them.
  QuantizedConv(const ConvCase& c, uint32_t seed, bool fully_connected = false, bool sparse = false) : c_(c), sparse_(sparse) {
    std::mt19937 rng(seed);
    const int icg = c.ic / c.groups;
    const size_t w_elems = static_cast<size_t>(c.oc) * static_cast<size_t>(c.kh * c.kw * icg);
    w_ = random_vector<int8_t>(rng, w_elems, -127, 128);
    bias_ = random_vector<int32_t>(rng, static_cast<size_t>(c.oc), -3000, 3000);
    m_ = random_vector<float>(rng, static_cast<size_t>(c.oc), 0.2, 1.0);
    x_ = random_vector<int8_t>(rng, static_cast<size_t>(c.n * c.h * c.w * c.ic) + 64, -128, 128);
    residual_ = random_vector<int8_t>(rng, out_elems() + 64, -128, 128);
    for (auto& m : m_) m *= 60.0f / (74.0f * 74.0f * std::sqrt(static_cast<float>(c.kh * c.kw * icg)));
    build(fully_connected);
  }
  size_t out_elems() const { return static_cast<size_t>(c_.n * c_.oh() * c_.ow() * c_.oc); }

  std::vector<int8_t> expected() const {
    std::vector<int64_t> acc(out_elems());
    for (size_t i = 0; i < acc.size(); ++i) acc[i] = bias_[i % static_cast<size_t>(c_.oc)];
    for_each_product(c_, [&](int out, int in, int w) {
      if (in >= 0) acc[static_cast<size_t>(out)] += (x_[static_cast<size_t>(in)] - c_.x_zero) * w_[static_cast<size_t>(w)];
    });
    const double lo = std::fmax(-128.0, std::nearbyint(static_cast<double>(c_.lo) / kScaleY) + c_.y_zero),
                 hi = std::fmin(127.0, std::nearbyint(static_cast<double>(c_.hi) / kScaleY) + c_.y_zero);
    std::vector<int8_t> y(out_elems());
    for (size_t i = 0; i < y.size(); ++i) {
      volatile float v = static_cast<float>(acc[i]) * m_[i % static_cast<size_t>(c_.oc)];
      if (c_.residual) {
        volatile float r = static_cast<float>(residual_[i] - kResidualZero) * (kScaleR / kScaleY);
        v = v + r;
      }
      y[i] = static_cast<int8_t>(std::fmin(std::fmax(std::nearbyint(static_cast<double>(v)) + c_.y_zero, lo), hi));
    }
    return y;
  }
  std::vector<int8_t> run(const Run& r) const { return execute<int8_t>(*this, r); }
  uint64_t macs() const { return static_cast<uint64_t>(out_elems()) * w_.size() / static_cast<uint64_t>(c_.oc); }
  const BuiltProgram& built() const { return built_; }
  std::vector<const void*> inputs() const {
    return c_.residual ? std::vector<const void*>{x_.data(), residual_.data()} : std::vector<const void*>{x_.data()};
  }
  std::vector<Shape> input_shapes() const {
    return c_.residual ? std::vector<Shape>{x_shape_, y_shape_} : std::vector<Shape>{x_shape_};
  }

 private:
  static constexpr float kScaleX = 0.05f, kScaleY = 0.0625f, kScaleR = 0.03125f;
  static constexpr int kResidualZero = 11;

  std::vector<int8_t> pack_dense(const ConvPacking& p) const {
    std::vector<int8_t> packed(p.packed_s8_bytes());
    p.pack_s8(w_.data(), packed.data());
    return packed;
  }

  std::vector<int8_t> pack_sparse(const kernels::SparseShape& s) {
    for (size_t i = 0; i < w_.size(); ++i) {
      const size_t c = i / s.seg_k / s.segs, k = i % s.seg_k;
      if ((c / 16 * 7 + i / s.seg_k % s.segs * 5 + k / 4 * 3) % 8 < 4) w_[i] = 0;
    }
    std::vector<int8_t> packed(kernels::gemm_sparse_s8_packed_bytes(w_.data(), s));
    kernels::gemm_sparse_s8_pack(w_.data(), s, packed.data());
    return packed;
  }

  void build(bool fully_connected) {
    const int icg = c_.ic / c_.groups;
    const auto u = [](int v) { return static_cast<uint32_t>(v); };
    const ConvPacking p = fully_connected ? fully_connected_packing(u(c_.oc), u(c_.ic))
                                          : conv_packing(c_.attrs(), u(c_.oc), u(c_.kh), u(c_.kw), u(icg));
    const std::vector<int8_t> packed = sparse_ ? pack_sparse(p.sparse_shape()) : pack_dense(p);
    const Layout layout = p.depthwise ? Layout::kDwConvS8 : sparse_ ? Layout::kGemmSparseS8 : Layout::kGemmS8;
    std::vector<int32_t> folded[2] = {bias_, bias_};
    for (size_t o = 0, per = w_.size() / static_cast<size_t>(c_.oc); o < bias_.size(); ++o) {
      for (size_t i = 0; i < per; ++i) {
        folded[0][o] -= c_.x_zero * w_[o * per + i];
        folded[1][o] -= (c_.x_zero + 128) * w_[o * per + i];
      }
    }
    ProgramBuilder b;
    const std::vector<TestDim> xd =
        fully_connected ? std::vector<TestDim>{c_.n, c_.ic} : std::vector<TestDim>{c_.n, c_.h, c_.w, c_.ic};
    const std::vector<TestDim> yd =
        fully_connected ? std::vector<TestDim>{c_.n, c_.oc} : std::vector<TestDim>{c_.n, c_.oh(), c_.ow(), c_.oc};
    const std::vector<TestDim> wd =
        fully_connected ? std::vector<TestDim>{c_.oc, c_.ic} : std::vector<TestDim>{c_.oc, c_.kh, c_.kw, icg};
    x_shape_ = fully_connected ? Shape{{c_.n, c_.ic}, 2} : shape4(c_.n, c_.h, c_.w, c_.ic);
    y_shape_ = fully_connected ? Shape{{c_.n, c_.oc}, 2} : shape4(c_.n, c_.oh(), c_.ow(), c_.oc);
    const uint32_t x = b.input(DType::kS8, xd, QuantParams{kScaleX, c_.x_zero});
    const uint32_t r = c_.residual ? b.input(DType::kS8, yd, QuantParams{kScaleR, kResidualZero}) : kNoTensor;
    const uint32_t y = b.output(DType::kS8, yd, QuantParams{kScaleY, c_.y_zero});
    const std::vector<uint32_t> operands = {x,
                                            b.constant(DType::kS8, wd, packed, layout),
                                            b.constant(DType::kS32, {c_.oc}, padded(p, folded[0]), Layout::kPadded16),
                                            b.constant(DType::kS32, {c_.oc}, padded(p, folded[1]), Layout::kPadded16),
                                            b.constant(DType::kF32, {c_.oc}, padded(p, m_), Layout::kPadded16),
                                            r};
    if (fully_connected) {
      b.step(Op::kFullyConnected, FullyConnectedAttrs{c_.lo, c_.hi}, operands, {y});
    } else {
      b.step(Op::kConv2d, c_.attrs(), operands, {y});
    }
    built_ = b.build();
  }

  ConvCase c_;
  bool sparse_;
  std::vector<int8_t> x_, w_, residual_;
  std::vector<int32_t> bias_;
  std::vector<float> m_;
  Shape x_shape_, y_shape_;
  BuiltProgram built_;
};

// Real: float, or half precision in its bits; a bias is float either way.
template <class Real>
class RealConv {
 public:
  RealConv(const ConvCase& c, uint32_t seed, bool fully_connected = false) : c_(c) {
    std::mt19937 rng(seed);
    const int icg = c.ic / c.groups;
    w_ = random_reals(rng, static_cast<size_t>(c.oc * c.kh * c.kw * icg));
    bias_ = random_vector<float>(rng, static_cast<size_t>(c.oc), -1, 1);
    x_ = random_reals(rng, static_cast<size_t>(c.n * c.h * c.w * c.ic) + 32);
    residual_ = random_reals(rng, out_elems() + 32);
    build(fully_connected);
  }
  size_t out_elems() const { return static_cast<size_t>(c_.n * c_.oh() * c_.ow() * c_.oc); }
  // The largest error that rounding can cause a result of `want`, for operands of order one.
  double tolerance(double want) const {
    return 3e-7 * (8 + c_.kh * c_.kw * c_.ic / c_.groups) + kernels::storage_error<Real>(want);
  }
  std::vector<double> expected() const {
    std::vector<double> y(out_elems());
    for_each_product(c_, [&](int out, int in, int w) {
      if (in >= 0)
        y[static_cast<size_t>(out)] +=
            static_cast<double>(kernels::real(x_[static_cast<size_t>(in)])) *
            static_cast<double>(kernels::real(w_[static_cast<size_t>(w)]));
    });
    for (size_t i = 0; i < y.size(); ++i) {
      if (c_.bias) y[i] += static_cast<double>(bias_[i % static_cast<size_t>(c_.oc)]);
      if (c_.residual) y[i] += static_cast<double>(kernels::real(residual_[i]));
      y[i] = std::fmin(std::fmax(y[i], static_cast<double>(c_.lo)), static_cast<double>(c_.hi));
    }
    return y;
  }
  std::vector<Real> run(const Run& r) const { return execute<Real>(*this, r); }
  uint64_t macs() const { return static_cast<uint64_t>(out_elems()) * w_.size() / static_cast<uint64_t>(c_.oc); }
  const BuiltProgram& built() const { return built_; }
  std::vector<const void*> inputs() const {
    return c_.residual ? std::vector<const void*>{x_.data(), residual_.data()} : std::vector<const void*>{x_.data()};
  }
  std::vector<Shape> input_shapes() const {
    return c_.residual ? std::vector<Shape>{x_shape_, y_shape_} : std::vector<Shape>{x_shape_};
  }

 private:
  static constexpr bool kHalf = sizeof(Real) == 2;
  static constexpr DType kDType = kHalf ? DType::kF16 : DType::kF32;

  static std::vector<Real> random_reals(std::mt19937& rng, size_t n) {
    std::vector<Real> v(n);
    kernels::fill_reals(rng, v.data(), n, -1, 1);
    return v;
  }

  void build(bool fully_connected) {
    const int icg = c_.ic / c_.groups;
    const auto u = [](int v) { return static_cast<uint32_t>(v); };
    const ConvPacking p = fully_connected ? fully_connected_packing(u(c_.oc), u(c_.ic))
                                          : conv_packing(c_.attrs(), u(c_.oc), u(c_.kh), u(c_.kw), u(icg));
    std::vector<Real> packed(p.packed_f32_elems());
    if constexpr (kHalf) p.pack_f16(w_.data(), packed.data());
    else p.pack_f32(w_.data(), packed.data());
    ProgramBuilder b;
    const std::vector<TestDim> xd =
        fully_connected ? std::vector<TestDim>{c_.n, c_.ic} : std::vector<TestDim>{c_.n, c_.h, c_.w, c_.ic};
    const std::vector<TestDim> yd =
        fully_connected ? std::vector<TestDim>{c_.n, c_.oc} : std::vector<TestDim>{c_.n, c_.oh(), c_.ow(), c_.oc};
    const std::vector<TestDim> wd =
        fully_connected ? std::vector<TestDim>{c_.oc, c_.ic} : std::vector<TestDim>{c_.oc, c_.kh, c_.kw, icg};
    x_shape_ = fully_connected ? Shape{{c_.n, c_.ic}, 2} : shape4(c_.n, c_.h, c_.w, c_.ic);
    y_shape_ = fully_connected ? Shape{{c_.n, c_.oc}, 2} : shape4(c_.n, c_.oh(), c_.ow(), c_.oc);
    const uint32_t x = b.input(kDType, xd);
    const uint32_t r = c_.residual ? b.input(kDType, yd) : kNoTensor;
    const uint32_t y = b.output(kDType, yd);
    const uint32_t bias = c_.bias ? b.constant(DType::kF32, {c_.oc}, padded(p, bias_), Layout::kPadded16) : kNoTensor;
    const Layout dense = kHalf ? Layout::kGemmF16 : Layout::kGemmF32, depthwise = kHalf ? Layout::kDwConvF16 : Layout::kDwConvF32;
    const Layout layout = p.depthwise ? depthwise : dense;
    const std::vector<uint32_t> operands = {x, b.constant(kDType, wd, packed, layout), bias, r};
    if (fully_connected) {
      b.step(Op::kFullyConnected, FullyConnectedAttrs{c_.lo, c_.hi}, operands, {y});
    } else {
      b.step(Op::kConv2d, c_.attrs(), operands, {y});
    }
    built_ = b.build();
  }

  ConvCase c_;
  std::vector<Real> x_, w_, residual_;
  std::vector<float> bias_;
  Shape x_shape_, y_shape_;
  BuiltProgram built_;
};

using FloatConv = RealConv<float>;

}  // namespace lathe::test
