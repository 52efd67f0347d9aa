#include "bench/peers/peer.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

namespace lathe::peers {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Short runs are timed in bunches, so that reading the clock does not count.
constexpr double kMinBunchUs = 20;
constexpr size_t kMinTimes = 3;

std::string time_case(const Run& run, double milliseconds) {
  auto start = Clock::now();
  size_t warm = 0;
  while (warm == 0 || microseconds_since(start) < milliseconds * 250) {
    run();
    ++warm;
  }
  const size_t bunch =
      std::max<size_t>(1, static_cast<size_t>(kMinBunchUs * static_cast<double>(warm) / microseconds_since(start)));
  std::vector<double> us;
  start = Clock::now();
  while (us.size() < kMinTimes || microseconds_since(start) < milliseconds * 1000) {
    const auto begin = Clock::now();
    for (size_t i = 0; i < bunch; ++i) run();
    us.push_back(microseconds_since(begin) / static_cast<double>(bunch));
    if (us.size() == 1 && us[0] > milliseconds * 1000) break;  // one run fills the time
  }
  std::sort(us.begin(), us.end());
  std::ostringstream text;
  text << "us " << us[us.size() / 2] << " " << us[0] << " " << us.size() * bunch;
  return text.str();
}

Type parse_type(const std::string& text) {
  if (text == "u8") return Type::kU8;
  if (text == "s8") return Type::kS8;
  if (text == "f32") return Type::kF32;
  throw std::runtime_error("unknown type " + text);
}

Run load(Peer& peer, std::istream& in) {
  uint32_t threads = 0;
  std::string kind, type;
  in >> threads >> kind;
  if (kind == "gemm") {
    Gemm g{};
    in >> g.m >> g.n >> g.k >> type;
    g.type = parse_type(type);
    return peer.gemm(g, threads);
  }
  if (kind == "conv") {
    Conv c{};
    in >> c.h >> c.w >> c.c >> c.oc >> c.kernel >> c.stride >> c.pad >> c.groups >> type;
    c.type = parse_type(type);
    return peer.conv(c, threads);
  }
  if (kind != "net") throw std::runtime_error("unknown case " + kind);
  Net net;
  in >> net.file >> net.batch;
  return peer.net(net, threads);
}

std::string answer(Peer& peer, std::map<std::string, Run>& cases, const std::string& line) {
  std::istringstream in(line);
  std::string command, id;
  in >> command >> id;
  try {
    if (command == "load") {
      cases[id] = load(peer, in);
      return "ok";
    }
    if (cases.count(id) == 0) return "none no case " + id;
    if (command == "drop") {
      cases.erase(id);
      return "ok";
    }
    double milliseconds = 0;
    in >> milliseconds;
    return time_case(cases[id], milliseconds);
  } catch (const std::exception& e) {
    return std::string("none ") + e.what();
  }
}

}  // namespace

int serve(Peer& peer) {
  std::cout << "hello " << peer.version() << std::endl;
  std::map<std::string, Run> cases;
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(peer, cases, line) << std::endl;
  return 0;
}

std::vector<uint8_t> random_bytes(size_t n) {
  std::minstd_rand rng(1);
  std::vector<uint8_t> v(n);
  for (auto& b : v) b = static_cast<uint8_t>(rng() >> 8);
  return v;
}

std::vector<float> random_floats(size_t n) {
  std::minstd_rand rng(1);
  std::uniform_real_distribution<float> d(-1, 1);
  std::vector<float> v(n);
  for (auto& f : v) f = d(rng);
  return v;
}

}  // namespace lathe::peers
