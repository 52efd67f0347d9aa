#include "prune/criteria.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "prune/slices.h"

namespace lathe::prune {
namespace {

struct Named {
  Criterion criterion;
  const char* name;
};
constexpr Named kNames[] = {
    {Criterion::kGamma, "gamma"},           {Criterion::kL1, "l1"},        {Criterion::kL2, "l2"}, {Criterion::kTaylor, "taylor"},
    {Criterion::kActivation, "activation"}, {Criterion::kRandom, "random"}};

// Values of a member's channels, one number each.
using Values = std::vector<double>;

// The float32 elements of a member; empty for anything else.
std::span<const float> elements(const Graph& graph, const Member& member) {
  const Value& v = graph.value(member.value);
  if (v.type.dtype != DType::kF32 || !v.constant.valid()) return {};
  return v.constant.as<float>();
}

// sum over the member's elements of each channel of term(element index).
template <class Term>
Values channel_sums(const Graph& graph, const Member& member, const Term& term) {
  Values sums(member.indices.size(), 0);
  for (size_t c = 0; c < sums.size(); ++c)
    for (const size_t i : member_elements(graph, member, c)) sums[c] += term(i);
  return sums;
}

// What the channel's elements sum up to, divided by how many they are.
template <class Term>
Values channel_means(const Graph& graph, const Member& member, const Term& term) {
  Values sums = channel_sums(graph, member, term);
  const Values counts = channel_sums(graph, member, [](size_t) { return 1.0; });
  for (size_t c = 0; c < sums.size(); ++c) sums[c] = counts[c] > 0 ? sums[c] / counts[c] : 0;
  return sums;
}

double mean_of(const Values& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0 : sum / static_cast<double>(v.size());
}

// Members' values -> one importance per channel; `as_is`: what is shown is in the members' own unit.
Importance combine(const std::vector<Values>& members, size_t channels, bool as_is) {
  Importance out;
  out.values.assign(channels, 0);
  out.shown.assign(channels, 0);
  const auto count = static_cast<double>(members.size());
  for (const Values& m : members) {
    const double mean = mean_of(m);
    for (size_t c = 0; c < channels; ++c) {
      out.shown[c] += m[c] / count;
      if (mean > 0) out.values[c] += m[c] / mean / count;
    }
  }
  if (!std::all_of(out.shown.begin(), out.shown.end(), [](double v) { return std::isfinite(v); }))
    return {{}, {}, "holds NaN or infinity"};
  if (!as_is) out.shown = out.values;
  return out;
}

bool is_weight(const Member& m) { return m.role == MemberRole::kOutput || m.role == MemberRole::kInput; }

// The members that the criterion looks at, in order.
std::vector<const Member*> chosen_members(const Graph& graph, const Group& group, Criterion criterion) {
  std::vector<const Member*> out;
  for (const Member& m : group.members) {
    if (elements(graph, m).empty()) continue;
    const bool gamma = m.role == MemberRole::kGamma && criterion != Criterion::kL1 && criterion != Criterion::kL2;
    const bool weight = is_weight(m) && criterion != Criterion::kGamma;
    if (gamma || weight) out.push_back(&m);
  }
  return out;
}

class Scoring {
 public:
  Scoring(const Graph& graph, const std::vector<Group>& groups, const ImportanceOptions& options)
      : graph_(graph), groups_(groups), options_(options), out_(groups.size()) {}

  Result<std::vector<Importance>> run() {
    for (size_t g = 0; g < groups_.size(); ++g) out_[g].missing = groups_[g].frozen;
    switch (options_.criterion) {
      case Criterion::kRandom:
        from_chance();
        break;
      case Criterion::kActivation:
        LATHE_CHECK_OK(from_activations());
        break;
      case Criterion::kTaylor:
        LATHE_CHECK_OK(from_gradients());
        break;
      default:
        from_constants();
        break;
    }
    return std::move(out_);
  }

 private:
  void from_chance() {
    Random random(options_.seed);
    for (size_t g = 0; g < groups_.size(); ++g) {
      Values v(groups_[g].channels);
      for (double& x : v) x = random.uniform();
      store(g, {v}, "");
    }
  }

  void from_constants() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      std::vector<Values> members;
      for (const Member* m : chosen_members(graph_, groups_[g], options_.criterion)) {
        const auto w = elements(graph_, *m);
        if (options_.criterion != Criterion::kL2) {
          members.push_back(channel_means(graph_, *m, [&](size_t i) { return std::fabs(static_cast<double>(w[i])); }));
          continue;
        }
        members.push_back(
            channel_means(graph_, *m, [&](size_t i) { return static_cast<double>(w[i]) * static_cast<double>(w[i]); }));
        for (double& x : members.back()) x = std::sqrt(x);
      }
      store(g, members,
            options_.criterion == Criterion::kGamma ? "no batch normalization scales its channels" : "has no float weights");
    }
  }

  Result<void> from_gradients() {
    std::vector<ValueId> constants;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (out_[g].missing.empty())
        for (const Member* m : chosen_members(graph_, groups_[g], Criterion::kTaylor)) constants.push_back(m->value);
    std::sort(constants.begin(), constants.end());
    constants.erase(std::unique(constants.begin(), constants.end()), constants.end());
    std::vector<std::vector<Values>> sums(groups_.size());
    LATHE_CHECK_OK(options_.gradients(graph_, constants, [&](const std::vector<std::span<const float>>& gradients) {
      for (size_t g = 0; g < groups_.size(); ++g)
        if (out_[g].missing.empty()) add_batch(groups_[g], constants, gradients, &sums[g]);
    }));
    for (size_t g = 0; g < groups_.size(); ++g) store(g, sums[g], "has no float weights");
    return {};
  }

  void add_batch(const Group& group, const std::vector<ValueId>& constants, const std::vector<std::span<const float>>& gradients,
                 std::vector<Values>* sums) const {
    const auto members = chosen_members(graph_, group, Criterion::kTaylor);
    sums->resize(members.size(), Values(group.channels, 0));
    for (size_t k = 0; k < members.size(); ++k) {
      const auto at = std::lower_bound(constants.begin(), constants.end(), members[k]->value) - constants.begin();
      const auto g = gradients[static_cast<size_t>(at)];
      const auto w = elements(graph_, *members[k]);
      const Values batch =
          channel_sums(graph_, *members[k], [&](size_t i) { return static_cast<double>(g[i]) * static_cast<double>(w[i]); });
      for (size_t c = 0; c < batch.size(); ++c) (*sums)[k][c] += batch[c] * batch[c];
    }
  }

  Result<void> from_activations() {
    std::vector<Member> wanted;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (out_[g].missing.empty()) wanted.insert(wanted.end(), groups_[g].activations.begin(), groups_[g].activations.end());
    LATHE_TRY(const auto means, options_.activations(graph_, wanted));
    size_t next = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!out_[g].missing.empty()) continue;
      std::vector<Values> members;
      for (const Member& a : groups_[g].activations) members.push_back(by_channel(a, means[next++]));
      store(g, members, "has no float activations");
    }
    return {};
  }

  static Values by_channel(const Member& a, const std::vector<double>& by_index) {
    Values out(a.indices.size(), 0);
    for (size_t c = 0; c < out.size(); ++c)
      for (const int64_t i : a.indices[c]) out[c] += by_index[static_cast<size_t>(i)] / static_cast<double>(a.indices[c].size());
    return out;
  }

  void store(size_t g, const std::vector<Values>& members, const char* none) {
    if (!out_[g].missing.empty()) return;
    if (members.empty())
      out_[g].missing = none;
    else
      out_[g] = combine(members, groups_[g].channels, options_.criterion == Criterion::kGamma);
  }

  const Graph& graph_;
  const std::vector<Group>& groups_;
  const ImportanceOptions& options_;
  std::vector<Importance> out_;
};

}  // namespace

Result<Criterion> parse_criterion(std::string_view name) {
  std::string all;
  for (const Named& n : kNames) {
    if (name == n.name) return n.criterion;
    all += std::string(all.empty() ? "" : ", ") + n.name;
  }
  return fail(Code::kInvalidArgument, "unknown criterion '" + std::string(name) + "', must be one of " + all);
}

const char* criterion_name(Criterion criterion) {
  for (const Named& n : kNames)
    if (criterion == n.criterion) return n.name;
  return "";
}

bool needs_data(Criterion criterion) { return criterion == Criterion::kTaylor || criterion == Criterion::kActivation; }

Result<std::vector<Importance>> importance(const Graph& graph, const std::vector<Group>& groups,
                                           const ImportanceOptions& options) {
  LATHE_TRY(std::vector<Importance> out, Scoring(graph, groups, options).run());
  const auto usable = [](const Importance& i) { return i.missing.empty(); };
  if (options.criterion == Criterion::kGamma && std::none_of(out.begin(), out.end(), usable))
    return fail(
        Code::kInvalidArgument,
        "no channel that can go has a batch normalization to rank it by (folded before import, or never there): rank by l1 "
        "or taylor instead of gamma");
  return out;
}

}  // namespace lathe::prune
