SELECT _ts, auction, price FROM bids WHERE auction % 123 = 0
