// What each head is worth to its block, which can go, and the weights that make up for those that went.
//
// Contribution: E |W_h x_h| over tokens (Michel, Levy, Neubig, "Are Sixteen Heads Really Better than One?", 2019, ask the same of
// gradients). Correlation: of W_h x_h with the block's output, over all its numbers. Redundancy: linear CKA (Kornblith et al.,
// "Similarity of Neural Network Representations Revisited", 2019) with the head that is most alike. Coverage: R^2 of a ridge
// regression of what heads contribute on the outputs of the heads that stay; its solution, added to the projection's weights,
// reproduces that part. All from HeadMoments. Thread-safe: no state.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "prune/head_moments.h"

namespace lathe::prune {

inline constexpr double kHeadRidge = 1e-3;  // of the mean variance of the numbers that are regressed on
inline constexpr double kCovered = 0.9;     // R^2 from which on heads count as covered
inline constexpr double kLow = 1.25;        // times the block's mean: contributions and correlations up to it count as low

struct Coverage {
  double r2 = 1;                 // of all rows; 1 if the heads contribute nothing
  std::vector<double> by_group;  // by user group
  double lost = 0;               // what is not covered: E |.|^2 as a share of the same of HeadBlock::sum
  std::vector<float> weight;     // the projection's with the fit, [width, outputs]; rows of what goes are 0
  std::vector<float> bias;       // to be added to the projection's; empty where it has none
};
// Heads `gone` of a block, sorted. With `fit` false what stays remains as it is. Requires: the block is not refused, a head stays.
Coverage cover_heads(const Graph& graph, const HeadBlock& block, const HeadMoments& moments, std::span<const uint32_t> gone,
                     bool fit = true);

struct HeadScore {
  double contribution = 0;
  double correlation = 0;
  double redundancy = 0;
  uint32_t nearest = 0;  // the head that is most alike
  double coverage = 1;   // by all other heads
  std::vector<double> group_coverage;
  double lost = 0;  // Coverage::lost if it goes alone
  // Contribution and correlation are both low, or it is covered, overall and in each user group.
  bool may_go = false;
};
// By head. Requires: the block is not refused and has two heads.
std::vector<HeadScore> score_heads(const Graph& graph, const HeadBlock& block, const HeadMoments& moments);

// The network whose projection has the fit's weights (and bias): what the heads that went contributed comes from those that
// stay. The columns of heads that go are 0, so that cutting them changes nothing.
Result<Graph> fold_heads(const Graph& graph, const HeadBlock& block, const Coverage& coverage);

}  // namespace lathe::prune
