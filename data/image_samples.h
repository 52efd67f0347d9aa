// Picture files, decoded on access. Internal to data/.
#pragma once
#include <string>
#include <vector>

#include "data/samples.h"

namespace lathe {

// `p` gives size and channels.
Result<std::shared_ptr<const Samples>> make_image_samples(std::vector<std::string> files, const Preprocessing& p);

}  // namespace lathe
