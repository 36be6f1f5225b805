"""What the server does in one step each, in Lua.

A queue is a sorted set; its members are entries `x.SESSION.ATTEMPT` (`s.` where it shares), its scores
their numbers. A session is a hash, which does not expire: a counter that its process moves on, and the
lease that says for how long others have to see it unchanged before they remove it. Its entries go with it,
in the same step, so each entry in a queue is one of a living session. Here absence may stand for death,
since every script runs on the primary and sees the newest state.

The time of day takes part in one thing: it is a floor of the numbers when the server is closed. `past` says
which run of the server all of this belongs to, and which session has closed it until the leases from before
are over; that name is used once, so a request to open another past opens nothing.

The field `line` of a session is the number of the last line that it was used over. What was sent over an
earlier line and arrives late does nothing: its sender has given it up.

All keys begin with `{coterie}`, so they lie in one slot.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from coterie.engines.queue.observation import NEIGHBOURS

COMMON = """
local P = '{coterie}:2:'
local BEFORE_MAX = 32
local function session_of(member)
  return string.match(member, '^%a%.([^.]+)')
end
local function draw()
  local number = string.format('%.0f', tonumber(redis.call('GET', P .. 'n') or 0) + 1)
  redis.call('SET', P .. 'n', number)
  return number
end
local function drop(lock, member)
  redis.call('ZREM', P .. 'q:' .. lock, member)
  redis.call('HDEL', P .. 'a:' .. lock, member)
  redis.call('HDEL', P .. 'e:' .. session_of(member), member)
end
-- The members of a queue that are inside.
local function inside(lock)
  local found = {}
  while true do
    local member = redis.call('ZRANGE', P .. 'q:' .. lock, #found, #found)[1]
    if not member then break end
    local shared = string.sub(member, 1, 1) == 's'
    if #found > 0 and not shared then break end
    found[#found + 1] = member
    if not shared then break end
  end
  return found
end
local function wake(lock)
  local within = inside(lock)
  if #within == 0 then redis.call('SREM', P .. 'locks', lock) end
  for _, member in ipairs(within) do
    redis.call('PUBLISH', '{coterie}:c:' .. session_of(member), 'w' .. lock)
  end
end
local function is_ours(session, line)
  if redis.call('EXISTS', P .. 'past') == 0 then return false end
  local last = redis.call('HGET', P .. 's:' .. session, 'line')
  if not last or tonumber(last) > tonumber(line) then return false end
  if last ~= line then redis.call('HSET', P .. 's:' .. session, 'line', line) end
  return true
end
-- By which session the server is closed ('' if it is open), and for which lease.
local function past()
  local known = redis.call('HMGET', P .. 'past', 'closed', 'longest')
  return known[1] or '', tonumber(known[2] or 0)
end
local function show(found, session)
  local known = redis.call('HMGET', P .. 's:' .. session, 'n', 'lease')
  if known[1] then
    found[#found + 1] = session
    found[#found + 1] = tonumber(known[1])
    found[#found + 1] = tonumber(known[2])
  end
end
-- Add the sessions before an entry, the next ones if there are many, each once.
local function show_before(found, seen, lock, member)
  local place = redis.call('ZRANK', P .. 'q:' .. lock, member)
  if not place or place == 0 then return end
  local first = math.max(0, place - BEFORE_MAX)
  local before = redis.call('ZRANGE', P .. 'q:' .. lock, first, place - 1)
  if first > 0 then before[#before + 1] = redis.call('ZRANGE', P .. 'q:' .. lock, 0, 0)[1] end
  for _, other in ipairs(before) do
    local session = session_of(other)
    if not seen[session] then
      seen[session] = true
      show(found, session)
    end
  end
end
-- The number of our entry if it is inside and the server is open, 0 if it waits, -2 if it is not there;
-- then what it has to wait for.
local function look(lock, member)
  local closed, longest = past()
  local found = {0, closed, longest}
  local number = redis.call('ZSCORE', P .. 'q:' .. lock, member)
  if not number then
    found[1] = -2
  elseif closed == '' then
    for _, other in ipairs(inside(lock)) do
      if other == member then
        found[1] = tonumber(number)
        return found
      end
    end
  end
  show_before(found, {}, lock, member)
  return found
end
local function end_session(session)
  local entries = redis.call('HGETALL', P .. 'e:' .. session)
  redis.call('DEL', P .. 's:' .. session, P .. 'e:' .. session)
  redis.call('ZREM', P .. 'sessions', session)
  for i = 1, #entries, 2 do drop(entries[i + 1], entries[i]) end
  for i = 2, #entries, 2 do wake(entries[i]) end
end
"""


class Script(NamedTuple):
    """A script, and the name by which a server knows it that has run it before."""

    text: str
    digest: str


def _script(body: str) -> Script:
    text = f"local NEIGHBOURS = {NEIGHBOURS}{COMMON}{body}"
    return Script(text, hashlib.sha1(text.encode()).hexdigest())  # noqa: S324 - what EVALSHA takes


# Begin a session. The first one in a run of the server, or after it was emptied, closes the server: all
# leases from before may still be in force, so nothing that is remembered of them is of use. `known` is the
# highest number that the program was given; those that come back raise the numbers above it.
#
# Programs of an earlier build kept their state in other keys, under leases of the server. They are excluded: their
# sessions are ended, which they are told at their next renewal, within the pause; and what they need to begin
# others becomes of another type, so each request of theirs fails with an error.
OPEN = _script("""
local session, line, lease_ms, longest = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local run, known, who = ARGV[5], tonumber(ARGV[6]), ARGV[7]
local FORMER = '{coterie}:run'
local is_former = redis.call('TYPE', FORMER).ok == 'hash'
local number = math.max(known, tonumber(redis.call('GET', P .. 'n') or 0))
longest = math.max(longest, tonumber(redis.call('HGET', P .. 'past', 'longest') or 0))
if is_former then
  longest = math.max(longest, tonumber(redis.call('HGET', FORMER, 'longest') or 0))
  number = math.max(number, tonumber(redis.call('GET', '{coterie}:n') or 0))
  for _, lock in ipairs(redis.call('SMEMBERS', '{coterie}:locks')) do
    for _, member in ipairs(redis.call('ZRANGE', '{coterie}:q:' .. lock, 0, -1)) do
      redis.call('DEL', '{coterie}:s:' .. session_of(member))
    end
    redis.call('DEL', '{coterie}:q:' .. lock, '{coterie}:a:' .. lock)
  end
  redis.call('DEL', '{coterie}:locks', '{coterie}:n')
end
if is_former or redis.call('HGET', P .. 'past', 'run') ~= run then
  for _, lock in ipairs(redis.call('SMEMBERS', P .. 'locks')) do
    redis.call('DEL', P .. 'q:' .. lock, P .. 'a:' .. lock)
  end
  for _, other in ipairs(redis.call('ZRANGE', P .. 'sessions', 0, -1)) do
    redis.call('DEL', P .. 's:' .. other, P .. 'e:' .. other)
  end
  redis.call('DEL', P .. 'locks', P .. 'sessions')
  local t = redis.call('TIME')
  number = math.max(number, (t[1] - 1577836800) * 1000000 + t[2]) + 1
  redis.call('HSET', P .. 'past', 'run', run, 'closed', session)
  redis.call('SET', FORMER, 'this server is used by a later release of coterie')
end
redis.call('HSET', P .. 'past', 'longest', longest)
redis.call('SET', P .. 'n', string.format('%.0f', number))
redis.call('HSET', P .. 's:' .. session, 'n', 1, 'lease', lease_ms, 'line', line, 'who', who)
redis.call('ZADD', P .. 'sessions', 0, session)
return {past()}
""")

# Move the counter on; return it, how many entries the session has, and what is seen of the past and of the
# neighbours: the next sessions in the order of names. So those that live observe all sessions.
#
# A server whose memory is full refuses commands that may need some, unless the script has written before: so the
# first command is one that is never refused, and does nothing. A full memory then ends no hold.
RENEW = _script("""
local session = ARGV[1]
redis.call('PERSIST', P .. 's:' .. session)
if not is_ours(session, ARGV[2]) then return {-1} end
local counter = redis.call('HINCRBY', P .. 's:' .. session, 'n', 1)
local found = {counter, redis.call('HLEN', P .. 'e:' .. session), past()}
local following = redis.call('ZRANGEBYLEX', P .. 'sessions', '(' .. session, '+', 'LIMIT', 0, NEIGHBOURS)
local left = NEIGHBOURS - #following
if left > 0 then
  for _, other in ipairs(redis.call('ZRANGEBYLEX', P .. 'sessions', '-', '(' .. session, 'LIMIT', 0, left)) do
    following[#following + 1] = other
  end
end
for _, other in ipairs(following) do show(found, other) end
return found
""")

JOIN = _script("""
local session, lock, member, author, left_lock, leaving = ARGV[1], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
if not is_ours(session, ARGV[2]) then return {-1} end
local queue = P .. 'q:' .. lock
if not redis.call('ZSCORE', queue, member) then
  if leaving ~= '' then drop(left_lock, leaving) end
  redis.call('ZADD', queue, draw(), member)
  redis.call('HSET', P .. 'a:' .. lock, member, author)
  redis.call('HSET', P .. 'e:' .. session, member, lock)
  redis.call('SADD', P .. 'locks', lock)
  if leaving ~= '' then wake(left_lock) end
end
return look(lock, member)
""")

LOOK = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return {-1} end
return look(ARGV[3], ARGV[4])
""")

# Look at all that wait: return which of them, counted from 1, have news for a look of their own, and what is
# seen of the past and of the sessions before the others.
LOOK_AROUND = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return {-1} end
local closed, longest = past()
local found, seen, news = {closed, longest}, {}, {}
for i = 3, #ARGV, 2 do
  local answer = look(ARGV[i], ARGV[i + 1])
  if answer[1] ~= 0 then
    news[#news + 1] = (i - 1) / 2
  else
    for at = 4, #answer, 3 do
      if not seen[answer[at]] then
        seen[answer[at]] = true
        show(found, answer[at])
      end
    end
  end
end
return {0, news, found}
""")

# Remove a session whose counter is still this one, with all of its entries.
REMOVE = _script("""
local known = redis.call('HMGET', P .. 's:' .. ARGV[1], 'n', 'who')
if known[1] ~= ARGV[2] then return '' end
end_session(ARGV[1])
return known[2]
""")

# Write down by which processes the program of this session is known.
LIVE = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return -1 end
redis.call('HSET', P .. 's:' .. ARGV[1], 'life', ARGV[3])
return 1
""")

# By which processes the programs of other sessions are known; empty where one does not say so.
LIVES = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return {-1} end
local found = {}
for i = 3, #ARGV do found[#found + 1] = redis.call('HGET', P .. 's:' .. ARGV[i], 'life') or '' end
return found
""")

# Remove a session whose program is known to be gone, whatever its counter is: by the processes that were looked for.
BURY = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return -1 end
if redis.call('HGET', P .. 's:' .. ARGV[3], 'life') ~= ARGV[4] then return 0 end
end_session(ARGV[3])
return 1
""")

# A participant that is inside does not answer an operator. All requests of its session are from now on those of an
# earlier line, which do nothing. Its counter moves on, so each observer counts its lease from then on, and removes it.
CONDEMN = _script("""
local lock, participant, LAST_LINE = ARGV[1], ARGV[2], '9007199254740992'
local longest = 0
for _, member in ipairs(inside(lock)) do
  local key = P .. 's:' .. session_of(member)
  local known = redis.call('HMGET', key, 'who', 'lease', 'line')
  if known[1] == participant then
    longest = math.max(longest, tonumber(known[2]))
    if known[3] ~= LAST_LINE then
      redis.call('HINCRBY', key, 'n', 1)
      redis.call('HSET', key, 'line', LAST_LINE)
    end
  end
end
return longest
""")

# Open what this session has closed, if no longer lease has become known than the one that was waited for. No number
# was given out meanwhile, and a program that came back may have known a higher one: those of entries that wait
# are drawn again, in their order.
OPEN_PAST = _script("""
local closed, longest = past()
if closed ~= ARGV[1] or longest > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', P .. 'past', 'closed', '')
for _, lock in ipairs(redis.call('SMEMBERS', P .. 'locks')) do
  for _, member in ipairs(redis.call('ZRANGE', P .. 'q:' .. lock, 0, -1)) do
    redis.call('ZADD', P .. 'q:' .. lock, draw(), member)
  end
  wake(lock)
end
return 1
""")

LEAVE = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return -1 end
drop(ARGV[3], ARGV[4])
wake(ARGV[3])
return 1
""")

# The entries of a session, each with its lock.
OWN = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return {} end
return redis.call('HGETALL', P .. 'e:' .. ARGV[1])
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
    local author = redis.call('HGET', P .. 'a:' .. lock, line[i])
    entries[#entries + 1] = {line[i], line[i + 1], author, (i + 1) / 2 <= count and 1 or 0}
  end
  if #entries > 0 then found[#found + 1] = {lock, entries} end
end
return found
""")

# The value of a lock, and whether it was written in this run of the server.
READ_VALUE = _script("""
local found = redis.call('HMGET', P .. 'v:' .. ARGV[1], 'record', 'run')
local run = redis.call('HGET', P .. 'past', 'run')
return {found[1] or '', found[2] and found[2] == run and 1 or 0}
""")

# Write the value of a lock by an entry that is inside alone, over a lower version; without a record, remove it.
WRITE_VALUE = _script("""
local lock, member, version, record = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if not is_ours(ARGV[1], ARGV[2]) then return -1 end
if string.sub(member, 1, 1) ~= 'x' or past() ~= '' or inside(lock)[1] ~= member then return 0 end
local key = P .. 'v:' .. lock
local stored = redis.call('HGET', key, 'version')
if stored and stored >= version then return 0 end
if record == '' then
  redis.call('DEL', key)
  redis.call('SREM', P .. 'values', lock)
else
  redis.call('SADD', P .. 'values', lock)
  local run = redis.call('HGET', P .. 'past', 'run')
  redis.call('HSET', key, 'version', version, 'run', run, 'record', record)
end
return 1
""")

VALUES = _script("return redis.call('SMEMBERS', P .. 'values')")

TIME = _script("return redis.call('TIME')")

# End a session of ours.
CLOSE = _script("""
if not is_ours(ARGV[1], ARGV[2]) then return 0 end
end_session(ARGV[1])
return 1
""")
