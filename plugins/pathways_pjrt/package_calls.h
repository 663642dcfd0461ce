// Functions for the Python package that PJRT has no entry for. The package calls them by ctypes.
//
// They name a client by its number in this process, its attribute pathways_number. The caller keeps the client alive during a
// call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/pathways_pjrt/table.h"

namespace pw::pathways_pjrt {

// Registers a client with the functions, and returns its number, which is never reused.
uint64_t AddClient(PJRT_Client* client);
void RemoveClient(PJRT_Client* client);

}  // namespace pw::pathways_pjrt

extern "C" {

// Asks the client's cluster a question in JSON (pathways/session/questions.h) and waits for the answer. Returns 0, or the code of
// an absl::Status. `text` is the answer or the error's message; the caller frees it by PathwaysFree.
int PathwaysAsk(uint64_t client, const char* question, size_t question_size, char** text, size_t* text_size);
void PathwaysFree(char* text);
}
