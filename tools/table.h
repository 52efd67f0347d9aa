// Plain-text tables for reports: columns as wide as their widest cell, numbers to the right.
#pragma once
#include <string>
#include <vector>

namespace lathe::tools {

class Table {
 public:
  explicit Table(std::vector<std::string> headers) : rows_{std::move(headers)} {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "12.3 KB" and so on, in powers of 1000.
std::string bytes_text(double bytes);

}  // namespace lathe::tools
