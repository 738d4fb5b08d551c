local function hex(s) return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end)) end
local function depth(v) local n = 0 while type(v) == 'table' do n = n + 1 local _, inner = next(v) v = inner end return n end
local function deep(v)
  if type(v) == 'number' then return string.format('%.17g', v) end
  if type(v) == 'string' then return '"' .. hex(v) .. '"' end
  if type(v) ~= 'table' then return tostring(v) end
  if depth(v) > 100 then return 'depth ' .. depth(v) end
  local pairs_of = {}
  for k, value in pairs(v) do table.insert(pairs_of, deep(k) .. '=' .. deep(value)) end
  table.sort(pairs_of)
  return '{' .. table.concat(pairs_of, ' ') .. '}'
end
