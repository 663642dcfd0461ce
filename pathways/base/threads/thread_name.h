// NameThisThread: the name of a thread in debuggers and `top -H`.
#pragma once

#include <pthread.h>

#include <string>

namespace pw {

// The system keeps at most 15 characters.
inline void NameThisThread(const std::string& name) { pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()); }

}  // namespace pw
