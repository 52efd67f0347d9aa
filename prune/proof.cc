#include <algorithm>
#include <cmath>

#include "prune/random_run.h"
#include "prune/rewrite.h"

namespace lathe::prune {
namespace {

constexpr double kEqualDb = 300;

std::string ports(const Graph& graph, const std::vector<ValueId>& list) {
  std::string text;
  for (const ValueId v : list)
    text += (text.empty() ? "" : ", ") + graph.value(v).name + " " + print_type(graph.dims(), graph.value(v).type);
  return text;
}

Result<void> same_ports(const Graph& a, const Graph& b) {
  const auto check = [&](const std::vector<ValueId>& of_a, const std::vector<ValueId>& of_b, const char* what) -> Result<void> {
    if (ports(a, of_a) == ports(b, of_b)) return {};
    return fail(Code::kInvalidArgument,
                std::string("the networks have different ") + what + ": " + ports(a, of_a) + " and " + ports(b, of_b));
  };
  LATHE_CHECK_OK(check(a.inputs(), b.inputs(), "inputs"));
  return check(a.outputs(), b.outputs(), "outputs");
}

}  // namespace

Result<Proof> prove(const Graph& masked, const Graph& rewritten, const ProofOptions& options) {
  LATHE_CHECK_OK(same_ports(masked, rewritten));
  const RandomRun run{.seed = options.seed, .batch = options.batch};
  LATHE_TRY(const std::vector<RunOutput> a, run_random(masked, run));
  LATHE_TRY(const std::vector<RunOutput> b, run_random(rewritten, run));
  Proof proof;
  double signal = 0, noise = 0, worst = -1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].values.size() != b[i].values.size())
      return fail(Code::kInvalidArgument, "output '" + a[i].name + "' has " + std::to_string(a[i].values.size()) +
                                              " elements masked, " + std::to_string(b[i].values.size()) + " rewritten");
    double largest = 0, difference = 0;
    for (size_t k = 0; k < a[i].values.size(); ++k) {
      const double x = a[i].values[k], y = b[i].values[k];
      if (!std::isfinite(x) || !std::isfinite(y))
        return fail(Code::kInvalidArgument,
                    "output '" + a[i].name + "' is not finite on random inputs: " + std::to_string(std::isfinite(x) ? y : x));
      largest = std::max(largest, std::fabs(x));
      difference = std::max(difference, std::fabs(x - y));
      signal += x * x;
      noise += (x - y) * (x - y);
    }
    const double relative = difference == 0 ? 0 : difference / std::max(largest, 1e-30);
    proof.largest_difference = std::max(proof.largest_difference, difference);
    if (relative <= worst) continue;
    worst = proof.relative = relative;
    proof.largest_output = largest;
    proof.output = a[i].name;
  }
  proof.sqnr_db = noise == 0 ? kEqualDb : std::min(kEqualDb, 10 * std::log10(std::max(signal, 1e-300) / noise));
  proof.passed = proof.relative <= options.tolerance;
  return proof;
}

}  // namespace lathe::prune
