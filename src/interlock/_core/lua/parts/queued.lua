-- queued (part): end here if there is no queue: its user has no right to it, or a slot is moving.
if not queue then
  return {left, now, 0, 0, '', '0'}
end
