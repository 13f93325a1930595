-- load.lua: what wrk sends, and how it reports. Arguments after `--`:
--
--     get  PATH                        one constant request
--     upload PATH BYTES                POST of so many bytes, no key
--     post PATH KIND RUN KEYS BODY     POST with an Idempotency-Key:
--          KIND fixed    KEYS keys, "RUN-1" to "RUN-KEYS", in turn: all of them completed before
--          KIND spread   one of KEYS keys of the same form, drawn at random: for more than can be kept in a table
--          KIND counter  a new key each time: "RUN-THREAD-NUMBER"
--          KIND uuid     the same uniqueness in the form of a random UUID
--
-- A new key is new over connections (each thread numbers its own requests), threads (each has a number) and rounds (RUN is drawn
-- anew for every run of wrk). At the end one line `RESULT {…}`: bench.py reads nothing else. Latencies are microseconds.

local threads = 0

function setup(thread)
    thread:set("thread_number", threads)
    threads = threads + 1
end

local authorization = "Authorization: Bearer bench-5f1c0e9a7d\r\n"
local next_request

local function constant(path)
    local text = "GET " .. path .. " HTTP/1.1\r\nHost: shop.example\r\n" .. authorization .. "\r\n"
    return function() return text end
end

local function post_parts(path, body)
    return "POST " .. path .. " HTTP/1.1\r\nHost: shop.example\r\n" .. authorization ..
        "Content-Type: application/json\r\nContent-Length: " .. #body .. "\r\nIdempotency-Key: ", "\r\n\r\n" .. body
end

local function fixed(before, after, run, count)
    local texts, at = {}, thread_number * 97
    for i = 1, count do texts[i] = before .. run .. "-" .. i .. after end
    return function()
        at = at % count + 1
        return texts[at]
    end
end

local function spread(before, after, run, count)
    local random = math.random
    math.randomseed(thread_number * 7919 + tonumber(os.time()))
    before = before .. run .. "-"
    return function() return before .. string.format("%d", random(1, count)) .. after end
end

local function counter(before, after, run)
    local number = 0
    before = before .. run .. "-" .. thread_number .. "-"
    return function()
        number = number + 1
        return before .. number .. after
    end
end

-- Adding and multiplying by an odd number are one to one on 32 bits: so the first eight digits differ for each
-- request of a thread, the rest for each thread and run.
local function uuid(before, after, run)
    local number, format = 0, string.format
    local rest = format("-%04x-4%s-a%s-%s", thread_number, run:sub(1, 3), run:sub(4, 6), run:sub(7, 18)) .. after
    local seed = tonumber(run:sub(1, 6), 16)
    return function()
        number = number + 1
        -- 65599 * 2^32 < 2^53: exact in a double
        return before .. format("%08x", ((number + seed) * 65599) % 4294967296) .. rest
    end
end

function init(args)
    if args[1] == "get" then
        next_request = constant(args[2])
        return
    end
    if args[1] == "upload" then
        local text = "POST " .. args[2] .. " HTTP/1.1\r\nHost: shop.example\r\n" .. authorization ..
            "Content-Type: application/octet-stream\r\nContent-Length: " .. args[3] .. "\r\n\r\n" ..
            string.rep("x", tonumber(args[3]))
        next_request = function() return text end
        return
    end
    local before, after = post_parts(args[2], args[6])
    local kinds = { fixed = fixed, spread = spread, counter = counter, uuid = uuid }
    next_request = kinds[args[3]](before, after, args[4], tonumber(args[5]))
end

function request()
    return next_request()
end

function done(summary, latency)
    local e = summary.errors
    io.write(string.format('RESULT {"requests": %d, "bytes": %.0f, "microseconds": %d, "p50": %d, "p99": %d, "connect": %d, ' ..
        '"read": %d, "write": %d, "status": %d, "timeout": %d}\n', summary.requests, summary.bytes, summary.duration,
        latency:percentile(50), latency:percentile(99), e.connect, e.read, e.write, e.status, e.timeout))
end
