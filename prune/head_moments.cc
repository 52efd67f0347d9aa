#include "prune/head_moments.h"

#include <Eigen/Core>
#include <cmath>

namespace lathe::prune {
namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void prepare(size_t width, Moments* m) {
  m->sum.assign(width, 0);
  m->gram.assign(width * width, 0);
}

void add(const Doubles& sums, const Doubles& gram, uint64_t rows, Moments* m) {
  m->rows += rows;
  Eigen::Map<Eigen::RowVectorXd>(m->sum.data(), sums.cols()) += sums.row(0);
  Eigen::Map<Doubles>(m->gram.data(), gram.rows(), gram.cols()) += gram;
}

// The projection's weight as [width, outputs].
void read_weight(const Graph& graph, const HeadBlock& block, HeadMoments* m) {
  const Value& w = graph.value(graph.node(block.projection).inputs[block.link.weight]);
  const auto values = w.constant.as<float>();
  m->width = static_cast<size_t>(*graph.dims().value(w.type.dims[block.link.in_axis]));
  m->outputs = values.size() / m->width;
  m->weight.resize(values.size());
  const bool inputs_first = block.link.in_axis < block.link.out_axis;
  for (size_t i = 0; i < m->width; ++i)
    for (size_t o = 0; o < m->outputs; ++o)
      m->weight[i * m->outputs + o] = inputs_first ? values[i * m->outputs + o] : values[o * m->width + i];
}

Doubles rows_of(const Doubles& all, const std::vector<int64_t>& which) {
  Doubles out(static_cast<Eigen::Index>(which.size()), all.cols());
  for (size_t i = 0; i < which.size(); ++i) out.row(static_cast<Eigen::Index>(i)) = all.row(which[i]);
  return out;
}

class Observer {
 public:
  Observer(const Graph& graph, const HeadBlock& block, size_t groups) : block_(block) {
    read_weight(graph, block, &moments_);
    prepare(moments_.width, &moments_.all);
    moments_.groups.resize(groups);
    for (Moments& m : moments_.groups) prepare(moments_.width, &m);
    moments_.norms.assign(block.heads(), 0);
    const Doubles w = Eigen::Map<const Rows>(moments_.weight.data(), index(moments_.width), index(moments_.outputs)).cast<double>();
    for (const auto& columns : block.columns) {
      const Doubles own = rows_of(w, columns);
      squares_.push_back(own * own.transpose());
    }
  }

  void see(std::span<const float> joined, std::span<const float> sum, std::span<const uint32_t> groups) {
    const size_t rows = joined.size() / moments_.width;
    const Doubles x = Eigen::Map<const Rows>(joined.data(), index(rows), index(moments_.width)).cast<double>();
    const Doubles sums = x.colwise().sum(), gram = x.transpose() * x;
    add(sums, gram, rows, &moments_.all);
    for (const uint32_t g : groups) add(sums, gram, rows, &moments_.groups[g]);
    // |W_h x_h|^2 = x_h^T (W_h^T W_h) x_h.
    for (size_t h = 0; h < block_.heads(); ++h) {
      const Doubles own = rows_of(x.transpose(), block_.columns[h]).transpose();
      const Eigen::VectorXd lengths = (own * squares_[h]).cwiseProduct(own).rowwise().sum();
      moments_.norms[h] += lengths.cwiseMax(0).cwiseSqrt().sum();
    }
    moments_.sum_squares +=
        Eigen::Map<const Eigen::VectorXf>(sum.data(), index(sum.size())).cast<double>().squaredNorm();
  }

  HeadMoments take() { return std::move(moments_); }

 private:
  static Eigen::Index index(size_t n) { return static_cast<Eigen::Index>(n); }

  const HeadBlock& block_;
  HeadMoments moments_;
  std::vector<Doubles> squares_;  // by head: W_h^T W_h
};

}  // namespace

Result<std::vector<HeadMoments>> observe_heads(const Graph& graph, std::span<const HeadBlock> blocks, const HeadSource& source) {
  std::vector<Observer> observers;
  std::vector<ValueId> values;
  for (const HeadBlock& b : blocks) {
    if (!b.refused.empty()) continue;
    observers.emplace_back(graph, b, source.groups.size());
    values.insert(values.end(), {b.joined, b.sum});
  }
  uint64_t samples = 0;
  LATHE_CHECK_OK(source.run(graph, values, [&](const std::vector<std::span<const float>>& seen, std::span<const uint32_t> groups) {
    ++samples;
    for (size_t k = 0; k < observers.size(); ++k) observers[k].see(seen[2 * k], seen[2 * k + 1], groups);
  }));
  if (samples == 0) return fail(Code::kInvalidArgument, "heads are judged by samples, and there are none");
  std::vector<HeadMoments> out(blocks.size());
  size_t next = 0;
  for (size_t k = 0; k < blocks.size(); ++k) {
    if (!blocks[k].refused.empty()) continue;
    out[k] = observers[next++].take();
    double total = out[k].sum_squares;
    for (const double v : out[k].all.gram) total += v;
    if (!std::isfinite(total))
      return fail(Code::kInvalidArgument,
                  "the head outputs '" + graph.value(blocks[k].joined).name + "' hold NaN or infinity on the samples");
  }
  return out;
}

}  // namespace lathe::prune
