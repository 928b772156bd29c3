-- What both editors share is in ../../vim; a server is started if `setup` was
-- called.
require("axon").attach(0)
