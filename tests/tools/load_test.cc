#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>

#include "base/cancel.h"
#include "runtime/host/cpu.h"
#include "tools/load.h"

using namespace lathe;
using namespace lathe::tools;

namespace {

using Clock = std::chrono::steady_clock;

void work(double ms) {
  const auto end = Clock::now() + std::chrono::duration<double, std::milli>(ms);
  while (Clock::now() < end) spin_pause();
}

LoadOptions closed(uint32_t clients, double seconds) {
  LoadOptions o;
  o.clients = clients;
  o.warmup_seconds = 0.02;
  o.seconds = seconds;
  return o;
}

LoadOptions open(double rate, double seconds, Arrivals arrivals) {
  LoadOptions o;
  o.rate = rate;
  o.arrivals = arrivals;
  o.warmup_seconds = 0.02;
  o.seconds = seconds;
  return o;
}

LoadResult measured(const std::vector<Serve>& replicas, const LoadOptions& o) {
  auto r = run_load(replicas, o);
  REQUIRE_MESSAGE(r.has_value(), r.error().message);
  return std::move(*r);
}

}  // namespace

TEST_CASE("a client waits for its answer before it asks again") {
  std::atomic<int> under_way{0}, most{0};
  const Serve serve = [&]() -> Result<void> {
    const int now = ++under_way;
    if (now > most) most = now;
    work(0.2);
    --under_way;
    return {};
  };
  const LoadResult r = measured({serve, serve, serve}, closed(1, 0.1));
  CHECK(most == 1);
  CHECK(r.completed > 0);
  CHECK(r.busy <= 0.4);
  CHECK(r.unserved == 0);
}

TEST_CASE("clients beyond the replicas queue, and their wait counts") {
  const Serve serve = []() -> Result<void> {
    work(1);
    return {};
  };
  const LoadResult r = measured({serve}, closed(4, 0.6));
  // Three others are always ahead.
  CHECK(r.latency.quantile_us(0.25) >= 3.9e3);
  CHECK(r.per_second() <= 1000);
  CHECK(r.busy > 0.5);
}

TEST_CASE("at a rate the requests that were due while a replica stalled are not forgotten") {
  std::atomic<int> calls{0};
  const Serve serve = [&]() -> Result<void> {
    if (++calls == 40) work(100);
    return {};
  };
  const LoadResult r = measured({serve}, open(1000, 0.4, Arrivals::kFixed));
  // A quarter of all requests came in the stall; one of a hundred would be seen if latency began when they are served.
  CHECK(r.latency.quantile_us(0.9) >= 3e4);
  CHECK(r.latency.count() >= 399);
  CHECK(r.latency.count() <= 401);
}

TEST_CASE("what nobody came to under overload is counted") {
  const Serve serve = []() -> Result<void> {
    work(5);
    return {};
  };
  const LoadResult r = measured({serve, serve}, open(4000, 0.2, Arrivals::kFixed));
  CHECK(r.completed <= 82);
  CHECK(r.unserved >= 700);
  CHECK(r.latency.count() >= 799);
  CHECK(r.latency.count() <= 801);
  // Half of all requests waited for half of the time at least.
  CHECK(r.latency.quantile_us(0.5) >= 0.07e6);
}

TEST_CASE("Poisson arrivals have the rate that was asked for") {
  const Serve serve = []() -> Result<void> { return {}; };
  LoadOptions o = open(20000, 0.3, Arrivals::kPoisson);
  for (o.seed = 1; o.seed <= 3; ++o.seed) {
    const LoadResult r = measured({serve}, o);
    // Six standard deviations.
    CHECK(std::abs(static_cast<double>(r.latency.count()) - 6000) < 6 * std::sqrt(6000.0));
    CHECK(r.latency.count() != 6000);
  }
}

TEST_CASE("an error of a replica ends the load") {
  std::atomic<int> calls{0};
  const Serve bad = [&]() -> Result<void> {
    if (++calls > 5) return fail(Code::kIo, "pulled out");
    work(0.1);
    return {};
  };
  for (const LoadOptions& o : {closed(4, 60), open(1000, 60, Arrivals::kPoisson)}) {
    calls = 0;
    const auto r = run_load({bad, bad}, o);
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().message == "pulled out");
  }
}

TEST_CASE("a request to stop ends the load with what was measured") {
  for (const LoadOptions& o : {closed(2, 60), open(2000, 60, Arrivals::kPoisson)}) {
    clear_cancel();
    const auto begin = Clock::now();
    const Serve serve = [&]() -> Result<void> {
      work(0.1);
      if (Clock::now() - begin > std::chrono::milliseconds(100)) request_cancel();
      return {};
    };
    const LoadResult r = measured({serve, serve}, o);
    clear_cancel();
    CHECK(r.interrupted);
    CHECK(r.seconds > 0);
    CHECK(r.seconds < 30);
    CHECK(r.completed > 0);
    CHECK(r.latency.count() >= r.completed / 2);
  }
}
