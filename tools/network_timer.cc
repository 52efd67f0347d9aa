#include "tools/network_timer.h"

#include "graph/lower/load.h"
#include "tools/measured_model.h"
#include "tools/timing.h"

namespace lathe::tools {

Result<NetworkTimer> NetworkTimer::open(const std::string& table, const SessionOptions& session, uint32_t batch, double seconds) {
  LATHE_TRY(CostTable costs, CostTable::open(table, device_name(session)));
  return NetworkTimer(std::move(costs), table, session, batch, seconds);
}

Result<double> NetworkTimer::ms(const Graph& graph) {
  const std::string key = network_key(graph, session_, batch_);
  if (const auto known = table_.find(key)) return *known / 1e3;
  LATHE_TRY(Runner timed, runner(graph));
  LATHE_TRY(const auto us, measure({&timed}, seconds_));
  ++measured_;
  const double median = percentile(us[0], 0.5);
  table_.set(key, median);
  LATHE_CHECK_OK(save());
  return median / 1e3;
}

Result<std::pair<double, double>> NetworkTimer::in_turns(const Graph& a, const Graph& b) const {
  LATHE_TRY(Runner first, runner(a));
  LATHE_TRY(Runner second, runner(b));
  LATHE_TRY(const auto us, measure({&first, &second}, seconds_));
  return std::pair{percentile(us[0], 0.5) / 1e3, percentile(us[1], 0.5) / 1e3};
}

Result<Runner> NetworkTimer::runner(const Graph& graph) const {
  LATHE_TRY(auto program, compile_for_host(graph));
  MeasureFlags flags;
  flags.batch = batch_;
  return make_runner(flags, {std::move(program), {}, 0}, session_);
}

}  // namespace lathe::tools
