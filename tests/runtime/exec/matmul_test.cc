// MatMul against plain loops: broadcasting, permuted operands, scale and clamp, float and quantized.
#include <cmath>

#include "tests/machine.h"
#include "tests/runtime/exec/op_run.h"

namespace lathe::test {
namespace {

struct MatMulShape {
  std::vector<int> a, b, y;
  MatMulAttrs attrs;
};

Ints perm(const std::vector<int>& axes) {
  Ints p;
  for (const int axis : axes) p.values[p.count++] = axis;
  return p;
}

MatMulAttrs attrs(const std::vector<int>& a, const std::vector<int>& b, const std::vector<int>& y, float scale = 1) {
  MatMulAttrs m;
  m.a_perm = perm(a), m.b_perm = perm(b), m.y_perm = perm(y);
  m.scale = scale;
  return m;
}

MatMulAttrs clamped(float lo, float hi) {
  MatMulAttrs m;
  m.lo = lo, m.hi = hi;
  return m;
}

const MatMulShape kShapes[] = {
    {{3, 5}, {5, 7}, {3, 7}, {}},
    {{1, 1}, {1, 1}, {1, 1}, {}},
    {{2, 3, 13, 33}, {2, 3, 33, 17}, {2, 3, 13, 17}, {}},
    {{2, 3, 5, 8}, {8, 6}, {2, 3, 5, 6}, {}},                                    // one product of 30 rows
    {{4, 6}, {2, 3, 6, 5}, {2, 3, 4, 5}, {}},                                    // a broadcasts
    {{2, 1, 5, 8}, {3, 8, 6}, {2, 3, 5, 6}, {}},                                 // both do
    {{3, 5}, {7, 5}, {3, 7}, attrs({}, {1, 0}, {})},                             // transposed b
    {{2, 9, 3, 8}, {2, 11, 3, 8}, {2, 3, 9, 11}, attrs({0, 2, 1, 3}, {0, 2, 3, 1}, {}, 0.35f)},  // an attention's scores
    {{2, 3, 9, 11}, {2, 11, 3, 8}, {2, 9, 3, 8}, attrs({}, {0, 2, 1, 3}, {0, 2, 1, 3})},         // and its values
    {{3, 2, 4, 6}, {6, 3, 5, 2}, {2, 4, 3, 5}, attrs({1, 0, 2, 3}, {3, 1, 0, 2}, {0, 2, 1, 3})},  // b with gaps both ways
    {{2, 70, 40}, {2, 40, 150}, {2, 70, 150}, clamped(-1, 2.5f)},                 // cut into tasks
    {{160, 64}, {64, 80}, {160, 80}, {}},                                        // rows for the threads
    {{1, 3000}, {3000, 260}, {1, 260}, {}},                                      // columns, in several blocks
};

// Positions of an operand's elements along the axes of the product, by plain index arithmetic.
struct Walker {
  std::vector<int> size, stride;  // in the order of the perm
  Walker(const std::vector<int>& dims, const Ints& order) {
    std::vector<int> strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
    for (size_t i = 0; i < dims.size(); ++i) {
      const size_t axis = order.count == 0 ? i : static_cast<size_t>(order[static_cast<int32_t>(i)]);
      size.push_back(dims[axis]);
      stride.push_back(strides[axis]);
    }
  }
  // Element (r, c) of the matrix at `batch`, whose indices are right-aligned with this operand's batch axes.
  size_t at(const std::vector<int>& batch, int r, int c) const {
    const size_t own = size.size() - 2;
    int pos = r * stride[own] + c * stride[own + 1];
    for (size_t i = 0; i < own; ++i) pos += size[i] == 1 ? 0 : batch[batch.size() - own + i] * stride[i];
    return static_cast<size_t>(pos);
  }
};

// Calls fn(position in y, a's and b's positions along k).
template <class F> void each_product(const MatMulShape& s, const F& fn) {
  Ints back;  // y's view: its tensor is stored in the order of y_perm
  back.count = s.attrs.y_perm.count;
  for (int32_t i = 0; i < back.count; ++i) back.values[s.attrs.y_perm[i]] = i;
  const Walker a(s.a, s.attrs.a_perm), b(s.b, s.attrs.b_perm), y(s.y, back);
  const size_t batch_rank = y.size.size() - 2;
  std::vector<int> batch(batch_rank, 0);
  const int m = y.size[batch_rank], n = y.size[batch_rank + 1], k = a.size.back();
  for (bool more = true; more;) {
    for (int r = 0; r < m; ++r) {
      for (int c = 0; c < n; ++c) {
        std::vector<std::pair<size_t, size_t>> terms;
        for (int i = 0; i < k; ++i) terms.push_back({a.at(batch, r, i), b.at(batch, i, c)});
        fn(y.at(batch, r, c), terms);
      }
    }
    more = false;
    for (size_t i = batch_rank; i-- > 0 && !more;) {
      more = ++batch[i] < y.size[i];
      if (!more) batch[i] = 0;
    }
  }
}

}  // namespace

TEST_CASE("products of two activations, float") {
  for (const MatMulShape& s : kShapes) {
    if (kSmallMachine && product(s.a) + product(s.b) + product(s.y) > 16384) continue;
    const TestTensor a = random_f32(s.a, 1), b = random_f32(s.b, 2);
    std::vector<double> y(product(s.y));
    each_product(s, [&](size_t at, const auto& terms) {
      double sum = 0;
      for (const auto& [i, j] : terms) sum += static_cast<double>(a.data<float>()[i]) * static_cast<double>(b.data<float>()[j]);
      y[at] = std::fmin(std::fmax(sum * static_cast<double>(s.attrs.scale), static_cast<double>(s.attrs.lo)),
                        static_cast<double>(s.attrs.hi));
    });
    check_close({Op::kMatMul, {a, b}, like(DType::kF32, s.y)}, s.attrs, y);
    check_close({Op::kMatMul, {a.as_constant(), b}, like(DType::kF32, s.y)}, s.attrs, y);
    check_close({Op::kMatMul, {a, b.as_constant()}, like(DType::kF32, s.y)}, s.attrs, y);
  }
}

TEST_CASE("products of two activations, quantized, are exact sums rounded once") {
  const QuantParams qa{0.04f, -9, -128, 127}, symmetric{0.031f, 0, -128, 127}, shifted{0.031f, 21, -128, 127},
      qy{0.05f, 12, -128, 127};
  for (size_t i = 0; i < 2 * std::size(kShapes); ++i) {
    const MatMulShape& s = kShapes[i / 2];
    const QuantParams qb = i % 2 == 0 ? symmetric : shifted;
    const TestTensor a = random_q8(s.a, 3, qa), b = random_q8(s.b, 4, qb);
    const auto m = static_cast<float>(static_cast<double>(qa.scale) * static_cast<double>(qb.scale) *
                                      static_cast<double>(s.attrs.scale) / static_cast<double>(qy.scale));
    QuantParams limits = qy;
    if (s.attrs.lo > -kInfinity) limits.qmin = static_cast<int32_t>(std::nearbyint(s.attrs.lo / qy.scale)) + qy.zero_point;
    if (s.attrs.hi < kInfinity) limits.qmax = static_cast<int32_t>(std::nearbyint(s.attrs.hi / qy.scale)) + qy.zero_point;
    std::vector<int8_t> y(product(s.y));
    each_product(s, [&](size_t at, const auto& terms) {
      int32_t sum = 0;
      for (const auto& [k, j] : terms) sum += (a.data<int8_t>()[k] - qa.zero_point) * (b.data<int8_t>()[j] - qb.zero_point);
      y[at] = expected_round(static_cast<float>(sum) * m, limits);
    });
    check_equal({Op::kMatMul, {a, b}, like(DType::kS8, s.y, qy)}, s.attrs, y);
    check_equal({Op::kMatMul, {a, b.as_constant()}, like(DType::kS8, s.y, qy)}, s.attrs, y);
  }
}

TEST_CASE("products whose shapes, permutations or grids disagree are refused") {
  const TestTensor a = random_f32({2, 3, 4}, 1), b = random_f32({2, 4, 5}, 2);
  const auto refused = [&](const TestTensor& x, const TestTensor& w, const std::vector<int>& y, const MatMulAttrs& m,
                           Code code = Code::kInvalidArgument) {
    check_refused({Op::kMatMul, {x, w}, like(x.dtype, y, x.quant)}, m, code);
  };
  refused(a, b, {2, 3, 4}, {});
  refused(a, b, {3, 3, 5}, {});
  refused(a, b, {2, 3, 5, 1}, {});
  refused(a, random_f32({2, 5, 5}, 3), {2, 3, 5}, {});
  refused(a, random_f32({3, 4, 5}, 3), {2, 3, 5}, {});
  refused(random_f32({4}, 1), b, {2, 5}, {});
  refused(a, b, {2, 3, 5}, attrs({0, 1}, {}, {}));
  refused(a, b, {2, 3, 5}, attrs({0, 0, 2}, {}, {}));
  refused(a, b, {2, 3, 5}, attrs({0, 1, 7}, {}, {}));
  refused(random_f32({2, 4, 3}, 1), b, {2, 3, 5}, attrs({0, 2, 1}, {}, {}), Code::kUnsupported);
  refused(a, b, {2, 5, 3}, attrs({}, {}, {0, 2, 1}), Code::kUnsupported);
  refused(a, b, {2, 3, 5}, attrs({}, {}, {}, 0));
  refused(a, b, {2, 3, 5}, attrs({}, {}, {}, -1));
  refused(a, b, {2, 3, 5}, clamped(1, 0));
  const QuantParams q{0.1f, 0, -128, 127}, shifted{0.1f, 3, -128, 127};
  refused(random_q8({2, 3, 4}, 1, q), b, {2, 3, 5}, {}, Code::kUnsupported);
  refused(random_q8({1, 65794}, 1, q), random_q8({65794, 1}, 2, q), {1, 1}, {}, Code::kUnsupported);
  refused(random_q8({1, 33000}, 1, q), random_q8({33000, 1}, 2, shifted), {1, 1}, {}, Code::kUnsupported);
}

}  // namespace lathe::test
