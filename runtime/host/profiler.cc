#include "runtime/host/profiler.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

namespace lathe {
namespace {

// Bytes of a step's operands, each tensor once: of all, and of the constants among them.
struct StepBytes {
  uint64_t all = 0, params = 0;
};

StepBytes step_bytes(const HostSession& session, const Program& p, const ProgramStep& s) {
  StepBytes out;
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < static_cast<uint32_t>(s.n_in) + s.n_out; ++i) {
    const uint32_t t = p.operand(s, i);
    if (t == kNoTensor || !seen.insert(t).second) continue;
    const ProgramTensor& x = p.tensor(t);
    const bool constant = x.kind == TensorKind::kConstant;
    const uint64_t bytes = constant ? x.stored_bytes : uint64_t{session.tensor_shape(t).elems()} * dtype_bytes(x.dtype);
    out.all += bytes;
    if (constant) out.params += bytes;
  }
  return out;
}

const std::string& group_name(const ProfileRow& r, ProfileBy by) {
  switch (by) {
    case ProfileBy::kOp: return r.op;
    case ProfileBy::kKernel: return r.kernel;
    case ProfileBy::kNode: break;
  }
  return r.name;
}

}  // namespace

Profiler::Profiler(const HostSession& session, const LoadedProgram& loaded, size_t trace_events)
    : steps_(loaded.program.step_count()), events_(trace_events) {
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    const ProgramStep& s = loaded.program.step(i);
    steps_[i].last.resize(kSamples);
    ProfileRow& r = steps_[i].row;
    const char* op = op_name(static_cast<Op>(s.op));
    r.op = i < loaded.step_ops.size() ? loaded.step_ops[i] : op == nullptr ? std::to_string(s.op) : op;
    r.name = i < loaded.step_names.size() ? loaded.step_names[i] : r.op + ":" + std::to_string(i);
    r.kernel = session.kernel_names(i);
    if (r.kernel.empty()) r.kernel = "-";
    r.macs = session.step_macs(i);
    const StepBytes bytes = step_bytes(session, loaded.program, s);
    r.bytes = bytes.all;
    r.param_bytes = bytes.params;
  }
}

void Profiler::before(void* self, uint32_t) {
  auto& p = *static_cast<Profiler*>(self);
  p.begin_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - p.origin_).count();
}

void Profiler::after(void* self, uint32_t step) {
  auto& p = *static_cast<Profiler*>(self);
  const int64_t end = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - p.origin_).count();
  Step& s = p.steps_[step];
  const int64_t ns = end - p.begin_ns_;
  s.ns += ns;
  s.last[s.calls++ % kSamples] = static_cast<uint32_t>(std::min<int64_t>(ns, UINT32_MAX));
  if (p.event_count_ < p.events_.size()) p.events_[p.event_count_++] = {step, p.begin_ns_, end};
}

void Profiler::clear() {
  for (Step& s : steps_) s.calls = 0, s.ns = 0;
  event_count_ = 0;
}

double Profiler::median_ns(const Step& step) {
  const auto count = static_cast<ptrdiff_t>(std::min<uint64_t>(step.calls, kSamples));
  std::vector<uint32_t> ns(step.last.begin(), step.last.begin() + count);
  if (ns.empty()) return 0;
  const auto middle = ns.begin() + static_cast<ptrdiff_t>(ns.size() / 2);
  std::nth_element(ns.begin(), middle, ns.end());
  return *middle;
}

double Profiler::p50_ns() const {
  double sum = 0;
  for (const Step& s : steps_) sum += median_ns(s);
  return sum;
}

double Profiler::mean_ns() const {
  double sum = 0;
  for (const Step& s : steps_) sum += s.calls == 0 ? 0 : static_cast<double>(s.ns) / static_cast<double>(s.calls);
  return sum;
}

std::vector<ProfileRow> Profiler::rows(ProfileBy by) const {
  std::map<std::string, size_t> index;
  std::vector<ProfileRow> rows;
  for (const Step& s : steps_) {
    const std::string& name = group_name(s.row, by);
    const auto [it, fresh] = index.try_emplace(name, rows.size());
    if (fresh) {
      rows.push_back(s.row);
      rows.back().name = name;
      rows.back().macs = rows.back().bytes = rows.back().param_bytes = 0;
    }
    ProfileRow& r = rows[it->second];
    r.calls += s.calls;
    r.p50_ns += median_ns(s);
    r.mean_ns += s.calls == 0 ? 0 : static_cast<double>(s.ns) / static_cast<double>(s.calls);
    r.macs += s.row.macs;
    r.bytes += s.row.bytes;
    r.param_bytes += s.row.param_bytes;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) { return a.p50_ns > b.p50_ns; });
  const double total = p50_ns();
  double sum = 0;
  for (ProfileRow& r : rows) {
    sum += r.p50_ns;
    r.share = total == 0 ? 0 : r.p50_ns / total;
    r.cumulative_share = total == 0 ? 0 : sum / total;
  }
  return rows;
}

void Profiler::write_trace(std::ostream& out) const {
  out << "{\"traceEvents\":[";
  for (size_t i = 0; i < event_count_; ++i) {
    const Event& e = events_[i];
    const ProfileRow& r = steps_[e.step].row;
    const nlohmann::json event = {{"name", r.name},
                                  {"cat", r.op},
                                  {"ph", "X"},
                                  {"pid", 1},
                                  {"tid", 1},
                                  {"ts", static_cast<double>(e.begin_ns) * 1e-3},
                                  {"dur", static_cast<double>(e.end_ns - e.begin_ns) * 1e-3},
                                  {"args", {{"kernel", r.kernel}, {"macs", r.macs}, {"bytes", r.bytes}}}};
    out << (i == 0 ? "\n" : ",\n") << event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  out << "\n],\"displayTimeUnit\":\"ns\"}\n";
}

}  // namespace lathe
