// The one place that includes asio, so that every file of this folder sees it configured alike.
//
// asio gives us readiness of descriptors, timers, posting and name resolution. Reading and writing are system calls of ours: asio
// gathers at most 64 pieces per call where the kernel takes 1024.
#pragma once

#ifndef ASIO_STANDALONE
#define ASIO_STANDALONE
#endif
#ifndef ASIO_NO_DEPRECATED
#define ASIO_NO_DEPRECATED
#endif
// A memory fence around each handler is for io_contexts with several threads; ours have one, and ThreadSanitizer knows no fences.
#ifndef ASIO_DISABLE_FENCED_BLOCK
#define ASIO_DISABLE_FENCED_BLOCK
#endif

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
