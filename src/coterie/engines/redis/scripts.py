"""What the server does in one step each, in Lua.

A queue is a sorted set; its members are entries `x.SESSION.ATTEMPT` (`s.` where it shares), its scores
their numbers. A session is a key that expires, and an entry lives as long as the session that made it;
the name of a session is used once, so a later one of the same process revives nothing. Entries
whose session is gone are swept from the head of a queue by whatever looks at it.

The value of a session is the number of the last line that it was used over. What was sent over an earlier
line and arrives late does nothing: its sender has given it up.

All keys begin with `{coterie}`, so they lie in one slot.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

COMMON = """
local P = '{coterie}:'
local EPOCH = 1577836800
local function alive(member)
  return redis.call('EXISTS', P .. 's:' .. string.match(member, '^%a%.([^.]+)')) == 1
end
local function drop(lock, member)
  redis.call('ZREM', P .. 'q:' .. lock, member)
  redis.call('HDEL', P .. 'a:' .. lock, member)
end
-- Sweep the head of a queue, and return the members that are inside.
local function inside(lock)
  local found, place = {}, 0
  while true do
    local member = redis.call('ZRANGE', P .. 'q:' .. lock, place, place)[1]
    if not member then break end
    if not alive(member) then
      drop(lock, member)
    else
      local shared = string.sub(member, 1, 1) == 's'
      if place > 0 and not shared then break end
      found[#found + 1] = member
      place = place + 1
      if not shared then break end
    end
  end
  if #found == 0 then redis.call('SREM', P .. 'locks', lock) end
  return found
end
local function wake(lock)
  for _, member in ipairs(inside(lock)) do
    redis.call('PUBLISH', P .. 'c:' .. string.match(member, '^%a%.([^.]+)'), 'w' .. lock)
  end
end
local function is_ours(session, line)
  local last = redis.call('GET', P .. 's:' .. session)
  if not last or tonumber(last) > tonumber(line) then return false end
  if last ~= line then redis.call('SET', P .. 's:' .. session, line, 'KEEPTTL') end
  return true
end
local function now_us()
  local t = redis.call('TIME')
  return (t[1] - EPOCH) * 1000000 + t[2]
end
-- The number of our entry if it is inside and the server is open; else how many ms to wait at most.
local function look(lock, member)
  local opens = tonumber(redis.call('HGET', P .. 'run', 'opens') or 0) - now_us()
  if opens > 0 then return {0, math.ceil(opens / 1000)} end
  local within, longest = inside(lock), 0
  for _, other in ipairs(within) do
    if other == member then return {tonumber(redis.call('ZSCORE', P .. 'q:' .. lock, member)), 0} end
    local left = redis.call('PTTL', P .. 's:' .. string.match(other, '^%a%.([^.]+)'))
    if left > longest then longest = left end
  end
  return {0, longest}
end
"""


class Script(NamedTuple):
    """A script, and the name by which a server knows it that has run it before."""

    text: str
    digest: str


def _script(body: str) -> Script:
    text = COMMON + body
    return Script(text, hashlib.sha1(text.encode()).hexdigest())  # noqa: S324 - what EVALSHA takes


# Begin a session. run: of the server, which another run may have taken up from a snapshot.
OPEN = _script("""
local session, line, lease_ms, longest_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local run, up_ms = ARGV[5], tonumber(ARGV[6])
-- Leases that were granted before the server started may not be over yet, the longest as well.
local longest = math.max(longest_ms, tonumber(redis.call('HGET', P .. 'run', 'longest') or 0))
local opens = now_us() + math.max(0, longest + 1000 - up_ms) * 1000
if redis.call('HGET', P .. 'run', 'id') == run then
  opens = math.max(opens, tonumber(redis.call('HGET', P .. 'run', 'opens') or 0))
end
redis.call('HSET', P .. 'run', 'id', run, 'longest', longest, 'opens', string.format('%.0f', opens))
redis.call('SET', P .. 's:' .. session, line, 'PX', lease_ms)
return 1
""")

RENEW = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return 0 end
return redis.call('PEXPIRE', P .. 's:' .. ARGV[1], ARGV[3])
""")

JOIN = _script("""
local lock, member, author, leaving = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if not is_ours(ARGV[1], ARGV[2]) then return {-1, 0} end
local queue = P .. 'q:' .. lock
if not redis.call('ZSCORE', queue, member) then
  if leaving ~= '' then drop(lock, leaving) end
  local number = math.max(tonumber(redis.call('GET', P .. 'n') or 0) + 1, now_us())
  redis.call('SET', P .. 'n', string.format('%.0f', number))
  redis.call('ZADD', queue, string.format('%.0f', number), member)
  redis.call('HSET', P .. 'a:' .. lock, member, author)
  redis.call('SADD', P .. 'locks', lock)
  if leaving ~= '' then wake(lock) end
end
return look(lock, member)
""")

LOOK = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return {-1, 0} end
return look(ARGV[3], ARGV[4])
""")

LEAVE = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return -1 end
drop(ARGV[3], ARGV[4])
wake(ARGV[3])
return 1
""")

LINES = _script("""
local locks = ARGV
if #locks == 0 then locks = redis.call('SMEMBERS', P .. 'locks') end
local found = {}
for _, lock in ipairs(locks) do
  local count = #inside(lock)
  local line = redis.call('ZRANGE', P .. 'q:' .. lock, 0, -1, 'WITHSCORES')
  local entries = {}
  for i = 1, #line, 2 do
    if alive(line[i]) then
      local author = redis.call('HGET', P .. 'a:' .. lock, line[i])
      entries[#entries + 1] = {line[i], line[i + 1], author, (i + 1) / 2 <= count and 1 or 0}
    end
  end
  if #entries > 0 then found[#found + 1] = {lock, entries} end
end
return found
""")

# End a session: its entries stay until they are swept, which is now where they are inside.
CLOSE = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return 0 end
redis.call('DEL', P .. 's:' .. ARGV[1])
for i = 3, #ARGV, 2 do
  drop(ARGV[i], ARGV[i + 1])
  wake(ARGV[i])
end
return 1
""")
