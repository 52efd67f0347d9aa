// prune: whole channels go, in one cut, with its proof.
#include "tools/compress/step.h"
#include "tools/markup.h"
#include "tools/model.h"
#include "tools/pruning.h"

namespace lathe::tools {
namespace {

// A float run of a sample for activations; three for gradients. Networks that are measured to meet a latency, about.
constexpr double kScoringCost = 3, kMeasuredNetworks = 8;

class Prune final : public Step {
 public:
  explicit Prune(PruneRequest request) : r_(std::move(request)) {}

  std::string what() const override {
    std::string text;
    if (r_.ratio) text = formatted("%g %% of the channels", 100 * *r_.ratio);
    if (r_.threshold) text = formatted("channels below %g", *r_.threshold);
    if (r_.target_macs) text = formatted("down to %.4g multiply-accumulates", *r_.target_macs);
    if (r_.target_ms) text = formatted("down to %g ms", *r_.target_ms);
    return text + ", by " + prune::criterion_name(r_.criterion);
  }

  double seconds(const StepCosts& c) const override {
    const double scoring = prune::needs_data(r_.criterion) ? kScoringCost * static_cast<double>(r_.samples) * c.sample_seconds : 0;
    return scoring + (r_.target_ms ? kMeasuredNetworks : r_.by == PruneBy::kTime ? 1 : 0) * c.measure_seconds;
  }

  Result<void> run(const StepInput& in, StepOutput* out) const override {
    LATHE_TRY(const Graph graph, load_graph(in.model, {}));
    PruneRequest request = r_;
    request.model = in.model;
    request.data = in.data->description().path;
    request.session = in.session;
    request.batch = in.batch;
    request.seconds = in.seconds;
    request.cost_table = in.cost_table;
    request.measure = false;  // the engine measures every version
    LATHE_TRY(PruneOutcome outcome, prune_model(graph, request));
    const PrunePlan& plan = outcome.plan;
    out->lines.push_back(formatted("%llu of %llu channels go; parameters %llu to %llu, multiply-accumulates %.4g to %.4g", static_cast<unsigned long long>(plan.gone),
                                   static_cast<unsigned long long>(plan.channels), static_cast<unsigned long long>(plan.before.parameters),
                                   static_cast<unsigned long long>(plan.after.parameters), plan.before.macs, plan.after.macs));
    for (const std::string& note : plan.notes) out->lines.push_back("note: " + note);
    out->lines.push_back(proof_text(outcome.proof));
    out->details = plan_json(outcome, request);
    out->graph = std::move(outcome.graph);
    return {};
  }

 private:
  PruneRequest r_;
};

Result<void> parse_target(TableReader& table, PruneRequest* r) {
  const std::pair<const char*, std::optional<double>*> targets[] = {
      {"ratio", &r->ratio}, {"threshold", &r->threshold}, {"target_macs", &r->target_macs}, {"target_latency", &r->target_ms}};
  std::string given;
  for (const auto& [key, value] : targets) {
    const Tree* at = table.get(key);
    if (at == nullptr) continue;
    if (!given.empty()) return table.error(*at, "'" + std::string(key) + "' and '" + given + "' exclude each other");
    given = key;
    LATHE_TRY(*value, positive_or(table, key, 0));
  }
  if (given.empty()) return table.error(*table.get("do"), "a prune step needs ratio, threshold, target_macs or target_latency");
  if (r->ratio && !(*r->ratio < 1)) return table.error(*table.get("ratio"), "'ratio' must be below 1");
  return {};
}

// A key whose text `read` understands.
template <class T, class Text, class Value>
Result<void> named(TableReader& table, const char* key, Result<T> (*read)(Text), Value* value) {
  const Tree* at = table.get(key);
  if (at == nullptr) return {};
  LATHE_TRY(const std::string text, table.string(key));
  auto parsed = read(text);
  if (!parsed) return table.error(*at, parsed.error().message);
  *value = *parsed;
  return {};
}

Result<std::unique_ptr<Step>> parse(TableReader& table, const std::string&) {
  PruneRequest r;
  LATHE_CHECK_OK(parse_target(table, &r));
  LATHE_CHECK_OK(named(table, "criterion", prune::parse_criterion, &r.criterion));
  LATHE_CHECK_OK(named(table, "by", parse_prune_by, &r.by));
  LATHE_CHECK_OK(named(table, "residue", parse_residue, &r.residue));
  LATHE_TRY(r.uniform, table.boolean_or("uniform", false));
  LATHE_TRY(r.heads, table.boolean_or("heads", false));
  LATHE_TRY(r.max_group_ratio, positive_or(table, "max_group_ratio", r.max_group_ratio));
  LATHE_TRY(const int64_t multiple, table.integer_or("multiple", 0, 65536, r.multiple));
  LATHE_TRY(const int64_t samples, table.integer_or("samples", 1, INT32_MAX, static_cast<int64_t>(r.samples)));
  LATHE_TRY(const int64_t seed, table.integer_or("seed", 0, INT64_MAX, static_cast<int64_t>(r.seed)));
  r.multiple = static_cast<uint32_t>(multiple), r.samples = static_cast<uint64_t>(samples), r.seed = static_cast<uint64_t>(seed);
  if (table.get("keep") != nullptr) {
    LATHE_TRY(r.keep, table.strings("keep"));
  }
  return std::make_unique<Prune>(std::move(r));
}

}  // namespace

const StepKind kStep_prune{"prune", 1, StepRole::kFloat, true, false, "pruned", parse};

}  // namespace lathe::tools
