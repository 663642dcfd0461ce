// The key-value callbacks of PJRT_Client_Create over a KeyValues.
#pragma once

#include "pathways/device/world.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::device::pjrt {

// Sets the callbacks, which use `store` as long as the client lives. The plugin calls them on any of its threads, and waits for them.
void OfferKeyValues(KeyValues* store, PJRT_Client_Create_Args* args);

}  // namespace pw::device::pjrt
