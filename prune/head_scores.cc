#include "prune/head_scores.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "graph/rewriter.h"
#include "prune/absorb.h"

namespace lathe::prune {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::Index;
using Eigen::RowVectorXd;

// Moments as means.
struct Means {
  RowVectorXd mean;
  Matrix raw, centred;  // E x x^T; the same about the mean
};

Means means_of(const Moments& m) {
  const auto width = static_cast<Index>(m.sum.size());
  const double rows = std::max<double>(1, static_cast<double>(m.rows));
  Means out;
  out.mean = Eigen::Map<const RowVectorXd>(m.sum.data(), width) / rows;
  out.raw = Eigen::Map<const Matrix>(m.gram.data(), width, width) / rows;
  out.centred = out.raw - out.mean.transpose() * out.mean;
  return out;
}

Matrix weight_of(const HeadMoments& m) {
  return Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
             m.weight.data(), static_cast<Index>(m.width), static_cast<Index>(m.outputs))
      .cast<double>();
}

Matrix rows_of(const Matrix& a, const std::vector<int64_t>& rows) {
  Matrix out(static_cast<Index>(rows.size()), a.cols());
  for (size_t i = 0; i < rows.size(); ++i) out.row(static_cast<Index>(i)) = a.row(rows[i]);
  return out;
}

Matrix part(const Matrix& a, const std::vector<int64_t>& rows, const std::vector<int64_t>& columns) {
  return rows_of(rows_of(a, rows).transpose(), columns).transpose();
}

// tr(a^T m b): the covariance of x a and x b, summed over their numbers, where m is that of x.
double trace_product(const Matrix& a, const Matrix& m, const Matrix& b) { return (m * b).cwiseProduct(a).sum(); }

// (a + ridge)^-1 b.
Matrix ridge_solve(Matrix a, const Matrix& b) {
  const double trace = a.trace();
  if (!(trace > 0)) return Matrix::Zero(b.rows(), b.cols());
  a.diagonal().array() += kHeadRidge * trace / static_cast<double>(a.rows());
  return a.ldlt().solve(b);
}

double r_squared(double left, double whole, double negligible) { return whole <= negligible ? 1 : 1 - left / whole; }

// The regression of what `gone` contribute on what stays.
class Fit {
 public:
  Fit(const HeadBlock& block, const HeadMoments& moments, std::span<const uint32_t> gone, bool centred, bool fit)
      : weight_(weight_of(moments)), moments_(moments), centred_(centred && fit), shift_(RowVectorXd::Zero(weight_.cols())) {
    std::vector<int64_t> away, stay;
    for (uint32_t h = 0; h < block.heads(); ++h) {
      std::vector<int64_t>& side = std::binary_search(gone.begin(), gone.end(), h) ? away : stay;
      side.insert(side.end(), block.columns[h].begin(), block.columns[h].end());
    }
    new_weight_ = weight_;
    for (const int64_t i : away) new_weight_.row(i).setZero();
    removed_ = weight_ - new_weight_;
    if (!fit) return;
    const Means m = means_of(moments.all);
    const Matrix& c = centred_ ? m.centred : m.raw;
    const Matrix solution = ridge_solve(part(c, stay, stay), part(c, stay, away) * rows_of(weight_, away));
    for (size_t i = 0; i < stay.size(); ++i) new_weight_.row(stay[i]) += solution.row(static_cast<Index>(i));
    if (centred_) shift_ = m.mean * (weight_ - new_weight_);
  }

  // E |.|^2 of what is not reproduced.
  double left(const Means& m) const {
    const Matrix error = weight_ - new_weight_;
    return trace_product(error, m.raw, error) - 2 * (m.mean * error).dot(shift_) + shift_.squaredNorm();
  }
  double r2(const Moments& moments) const {
    if (moments.rows == 0) return 1;
    const Means m = means_of(moments);
    const Matrix& c = centred_ ? m.centred : m.raw;
    // Float32 noise of a block that is large beside them makes no contribution.
    return r_squared(left(m), trace_product(removed_, c, removed_), 1e-12 * trace_product(weight_, m.raw, weight_));
  }

  Coverage coverage() const {
    Coverage out;
    out.r2 = r2(moments_.all);
    for (const Moments& g : moments_.groups) out.by_group.push_back(r2(g));
    const double energy = moments_.sum_squares / std::max<double>(1, static_cast<double>(moments_.all.rows));
    out.lost = energy > 0 ? std::max(0.0, left(means_of(moments_.all))) / energy : 0;
    out.weight.resize(moments_.weight.size());
    Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
        out.weight.data(), new_weight_.rows(), new_weight_.cols()) = new_weight_.cast<float>();
    if (centred_) out.bias.assign(shift_.data(), shift_.data() + shift_.size());
    return out;
  }

 private:
  Matrix weight_, new_weight_, removed_;
  const HeadMoments& moments_;
  bool centred_;
  RowVectorXd shift_;
};

// Linear CKA of two sets of numbers from their covariances.
double alike(const Matrix& covariance, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const double own = part(covariance, a, a).norm() * part(covariance, b, b).norm();
  return own > 0 ? part(covariance, a, b).squaredNorm() / own : 0;
}

void judge(const Graph& graph, const HeadBlock& block, const HeadMoments& moments, const Means& means, uint32_t h, HeadScore* s) {
  const Matrix weight = weight_of(moments);
  Matrix own = Matrix::Zero(weight.rows(), weight.cols());
  for (const int64_t i : block.columns[h]) own.row(i) = weight.row(i);
  const double both = trace_product(own, means.centred, own) * trace_product(weight, means.centred, weight);
  s->contribution = moments.norms[h] / std::max<double>(1, static_cast<double>(moments.all.rows));
  s->correlation = both > 0 ? std::fabs(trace_product(own, means.centred, weight)) / std::sqrt(both) : 0;
  for (uint32_t other = 0; other < block.heads(); ++other) {
    if (other == h) continue;
    const double cka = alike(means.centred, block.columns[h], block.columns[other]);
    if (cka > s->redundancy) s->nearest = other;
    s->redundancy = std::max(s->redundancy, cka);
  }
  const Coverage c = cover_heads(graph, block, moments, {&h, 1});
  s->coverage = c.r2;
  s->group_coverage = c.by_group;
  s->lost = c.lost;
}

template <class F>
double mean_over(const std::vector<HeadScore>& scores, F&& f) {
  double sum = 0;
  for (const HeadScore& s : scores) sum += f(s);
  return sum / static_cast<double>(scores.size());
}

}  // namespace

Coverage cover_heads(const Graph& graph, const HeadBlock& block, const HeadMoments& moments, std::span<const uint32_t> gone,
                     bool fit) {
  const std::optional<BiasPlace> bias = bias_place(graph, block.projection, block.link);
  const bool takes_shift = bias && (bias->value == kNoId || (graph.value(bias->value).constant.valid() &&
                                                              graph.value(bias->value).type.dtype == DType::kF32));
  return Fit(block, moments, gone, takes_shift, fit).coverage();
}

std::vector<HeadScore> score_heads(const Graph& graph, const HeadBlock& block, const HeadMoments& moments) {
  const Means means = means_of(moments.all);
  std::vector<HeadScore> scores(block.heads());
  for (uint32_t h = 0; h < scores.size(); ++h) judge(graph, block, moments, means, h, &scores[h]);
  const double contribution = mean_over(scores, [](const HeadScore& s) { return s.contribution; });
  const double correlation = mean_over(scores, [](const HeadScore& s) { return s.correlation; });
  for (HeadScore& s : scores) {
    const bool covered = s.coverage >= kCovered && std::all_of(s.group_coverage.begin(), s.group_coverage.end(),
                                                               [](double r2) { return r2 >= kCovered; });
    s.may_go = covered || (s.contribution <= kLow * contribution && s.correlation <= kLow * correlation);
  }
  return scores;
}

Result<Graph> fold_heads(const Graph& graph, const HeadBlock& block, const Coverage& coverage) {
  Graph out = graph;
  Rewriter rewriter(out);
  const ValueId w = out.node(block.projection).inputs[block.link.weight];
  const size_t width = static_cast<size_t>(*out.dims().value(out.value(w).type.dims[block.link.in_axis]));
  const size_t outputs = coverage.weight.size() / width;
  std::vector<float> values = coverage.weight;
  if (block.link.out_axis < block.link.in_axis)
    for (size_t i = 0; i < width; ++i)
      for (size_t o = 0; o < outputs; ++o) values[o * width + i] = coverage.weight[i * outputs + o];
  rewriter.set_constant(w, Constant::of(values));
  if (!coverage.bias.empty()) {
    const BiasPlace place = *bias_place(out, block.projection, block.link);
    std::vector<float> bias = coverage.bias;
    TensorType type{DType::kF32, {out.dims().constant(static_cast<int64_t>(outputs))}};
    std::string name = out.node(block.projection).name + ":covered";
    if (place.value != kNoId) {
      const auto old = out.value(place.value).constant.as<float>();
      for (size_t o = 0; o < outputs; ++o) bias[o] += old[o];
      type = out.value(place.value).type;
      name = out.value(place.value).name;
    }
    rewriter.set_input(place.node, place.operand, rewriter.constant(out.fresh_name(name), type, Constant::of(bias)));
  }
  rewriter.sweep();
  LATHE_CHECK_OK(rewriter.ok());
  LATHE_CHECK_OK(verify(out));
  return out;
}

}  // namespace lathe::prune
