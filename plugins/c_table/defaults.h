// Default entries of a C table: an entry that a plugin does not implement is not null, and returns an error that names it.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "plugins/c_table/version.h"

namespace pw::c_table {

// Makes every entry, except those of errors, return Refusal(its name). The plugin then sets the entries that it implements.
void FillDefaults(PJRT_Api* api);

// Returns UNIMPLEMENTED, worded for the plugin's users. Each plugin defines it.
absl::Status Refusal(absl::string_view entry);

}  // namespace pw::c_table
