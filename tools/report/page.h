// A report as one HTML page: no script, nothing from elsewhere, for wide and narrow screens, light and dark.
#pragma once
#include <string>

#include "tools/report/gather.h"

namespace lathe::tools {

std::string report_page(const Report& report);

}  // namespace lathe::tools
