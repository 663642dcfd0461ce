// Includes asio with one configuration. The files of this folder include this header, never asio directly.
//
// asio provides descriptor readiness, timers, posting and name resolution. Reads and writes call the system directly, because asio
// gathers at most 64 pieces per call where the kernel takes 1024.
#pragma once

#ifndef ASIO_STANDALONE
#define ASIO_STANDALONE
#endif
#ifndef ASIO_NO_DEPRECATED
#define ASIO_NO_DEPRECATED
#endif
// Handler fences serve io_contexts with several threads. Ours have one thread each, and ThreadSanitizer does not understand fences.
#ifndef ASIO_DISABLE_FENCED_BLOCK
#define ASIO_DISABLE_FENCED_BLOCK
#endif

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
